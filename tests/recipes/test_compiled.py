"""Everyday programs that are traced, scripted and saved to run without their source."""

from __future__ import annotations

import io


def test_a_traced_network_is_saved_and_loaded(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    x = torch.rand(1, 3, 8, 8)
    f = io.BytesIO()
    torch.jit.save(torch.jit.trace(net, x), f)
    f.seek(0)
    assert torch.equal(torch.jit.load(f)(x), net(x))


def test_a_scripted_function_keeps_its_branches(torch):
    @torch.jit.script
    def f(x):
        if bool(x.sum() > 0):
            y = x
        else:
            y = -x
        return y

    assert f(torch.ones(2)).tolist() == [1, 1] and f(-torch.ones(2)).tolist() == [1, 1]


def test_a_network_for_images_is_saved_for_another_program(torch, tmp_path):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3)).eval()
    x = torch.arange(48.0).view(1, 4, 4, 3).permute(0, 3, 1, 2) / 255
    torch.jit.save(torch.jit.trace(net, x), str(tmp_path / "m.pt"))
    loaded = torch.jit.load(str(tmp_path / "m.pt"))
    bytes_of_image = torch.arange(48, dtype=torch.uint8).view(1, 4, 4, 3)
    y = loaded.forward(bytes_of_image.permute(0, 3, 1, 2).to(torch.float32).div(255))
    assert torch.allclose(y, net(x))
