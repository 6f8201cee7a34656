"""The older name of ``torch.hub.load_state_dict_from_url``. Source: torch.utils.model_zoo."""

from ..hub import load_state_dict_from_url as load_url, tqdm

__all__ = ["load_url", "tqdm"]
