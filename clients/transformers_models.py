"""transformers: GPT-2, Llama, BERT and T5 with random weights: losses, gradients, a training step and generation."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    get_linear_schedule_with_warmup,
)

PACKAGES = ["transformers", "tokenizers", "huggingface-hub", "safetensors"]


def gpt2():
    config = GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=49, pad_token_id=49)
    model = GPT2LMHeadModel(config)
    ids = torch.randint(0, 49, (2, 12))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 6)
    losses = []
    for _ in range(4):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    greedy = model.generate(ids[:, :4], max_new_tokens=8, do_sample=False)
    beams = model.generate(ids[:, :4], max_new_tokens=6, num_beams=3, do_sample=False)
    torch.manual_seed(3)
    sampled = model.generate(ids[:, :4], max_new_tokens=8, do_sample=True, top_k=10, temperature=0.9)
    return {"losses": losses, "greedy": greedy, "beams": beams, "sampled": sampled}


def llama():
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(1, 40, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    output = model(input_ids=ids, attention_mask=mask, labels=ids, output_hidden_states=True)
    output.loss.backward()
    return {
        "loss": output.loss,
        "hidden": output.hidden_states[-1][0, -1],
        "gradient": model.model.layers[0].self_attn.q_proj.weight.grad.norm(),
        "continued": model.generate(ids[:1], max_new_tokens=6, do_sample=False),
    }


def bert():
    config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=3)
    model = BertForSequenceClassification(config)
    ids, mask = torch.randint(0, 60, (3, 10)), torch.ones(3, 10, dtype=torch.long)
    mask[2, 6:] = 0
    torch.manual_seed(4)
    trained = model(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 2, 1]))
    trained.loss.backward()
    return {"loss": trained.loss, "logits": trained.logits, "gradient": model.bert.embeddings.word_embeddings.weight.grad.norm()}


def t5():
    config = T5Config(vocab_size=40, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).eval()
    ids = torch.randint(1, 40, (2, 7))
    return {"loss": model(input_ids=ids, labels=ids.flip(1)).loss, "generated": model.generate(ids, max_new_tokens=6, do_sample=False)}


def results():
    found = {}
    for seed, model in enumerate((gpt2, llama, bert, t5)):
        torch.manual_seed(seed)
        found.update({f"{model.__name__} {name}": value for name, value in model().items()})
    return found
