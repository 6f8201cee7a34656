"""diffusers: a denoising network trained, pictures drawn by four schedulers, an autoencoder, a transformer for pictures."""

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    Transformer2DModel,
    UNet2DModel,
)
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

PACKAGES = ["diffusers"]


def network():
    return UNet2DModel(
        sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    )  # fmt: skip


def trained():
    torch.manual_seed(0)
    net, scheduler = network(), DDPMScheduler(num_train_timesteps=50)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    rate = get_cosine_schedule_with_warmup(optimizer, 2, 8)
    average = EMAModel(net.parameters(), decay=0.9)
    clean = torch.randn(4, 1, 16, 16).cumsum(-1) / 4
    losses = []
    for _ in range(6):
        noise, steps = torch.randn(4, 1, 16, 16), torch.randint(0, 50, (4,))
        loss = torch.nn.functional.mse_loss(net(scheduler.add_noise(clean, noise, steps), steps).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        rate.step()
        average.step(net.parameters())
        losses.append(loss.item())
    return net, {"losses": losses, "rate": rate.get_last_lr(), "decay": average.get_decay(6)}


def drawn(net):
    found = {}
    kinds = {"ddim": DDIMScheduler, "euler": EulerDiscreteScheduler, "dpm": DPMSolverMultistepScheduler}
    for name, kind in kinds.items():
        scheduler = kind(num_train_timesteps=50)
        scheduler.set_timesteps(4)
        x = torch.randn(1, 1, 16, 16, generator=torch.Generator().manual_seed(3)) * scheduler.init_noise_sigma
        with torch.no_grad():
            for step in scheduler.timesteps:
                x = scheduler.step(net(scheduler.scale_model_input(x, step), step).sample, step, x).prev_sample
        found[name] = x[0, 0, ::5, ::5]
    pipeline = DDPMPipeline(net.eval(), DDPMScheduler(num_train_timesteps=50))
    pipeline.set_progress_bar_config(disable=True)
    made = pipeline(generator=torch.Generator().manual_seed(4), num_inference_steps=3, output_type="np").images
    return {**found, "pipeline": made[0, ::5, ::5, 0]}


def others():
    torch.manual_seed(5)
    coder = AutoencoderKL(
        in_channels=3, out_channels=3, block_out_channels=(8, 16), latent_channels=2, norm_num_groups=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    x = torch.randn(1, 3, 16, 16)
    latents = coder.encode(x).latent_dist
    painter = Transformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, cross_attention_dim=6, norm_num_groups=2
    )
    painted = painter(torch.randn(1, 4, 8, 8), encoder_hidden_states=torch.randn(1, 3, 6)).sample
    painted.square().mean().backward()
    return {
        "latents": [latents.mean.mean(), latents.kl()],
        "decoded": coder.decode(latents.mode()).sample[0, :, ::7, ::7],
        "painted": painted[0, :, ::4, ::4],
        "gradient": painter.proj_in.weight.grad.flatten()[:6],
    }


def results():
    net, found = trained()
    return {**found, **drawn(net), **others()}
