"""torchinfo: the summary of a small network: layers, shapes, parameters and multiply-adds."""

import torch
from torchinfo import summary

PACKAGES = ["torchinfo"]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        )
        self.recurrent = torch.nn.LSTM(8 * 16, 12, batch_first=True)
        self.head = torch.nn.Linear(12, 5)

    def forward(self, x):
        x = self.features(x).permute(0, 2, 1, 3).flatten(2)
        return self.head(self.recurrent(x)[0][:, -1])


def results():
    torch.manual_seed(0)
    told = summary(Network(), input_size=(2, 3, 32, 32), verbose=0, col_names=("input_size", "output_size", "num_params", "mult_adds"))
    return {
        "table": str(told),
        "parameters": told.total_params,
        "multiply-adds": told.total_mult_adds,
        "output bytes": told.total_output_bytes,
        "layers": [layer.class_name for layer in told.summary_list],
    }
