"""The network's layers: linear layers and experts through the native module, everything else in torch.

All of it runs under `torch.inference_mode`, on float32 activations of shape [tokens, features].
"""
