"""The numbers of the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TinyConfig:
    """Sizes of a GLM-4-MoE network with one multi-token-prediction layer. The defaults are strata-tiny's."""

    vocab_size: int = 4096
    hidden_size: int = 256
    dense_width: int = 512
    layers: int = 7
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 32
    experts: int = 48
    top_k: int = 8
    expert_width: int = 32
    context: int = 1024
    rope_theta: float = 100000.0
    norm_eps: float = 1e-5

    @property
    def rotary_dim(self) -> int:
        """Leading dimensions of each head that carry the position; the rest carries none."""
        return self.head_dim // 2

    def problem(self) -> str | None:
        """Return what makes these sizes impossible to build, or None."""
        if min(self.hidden_size, self.layers, self.heads, self.kv_heads, self.experts, self.top_k, self.context) < 1:
            return "every size must be at least 1"
        if self.heads % self.kv_heads:
            return f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})"
        if self.head_dim % 4:
            return f"head_dim ({self.head_dim}) must be a multiple of 4: half of it is rotated in pairs"
        if self.top_k > self.experts:
            return f"top_k ({self.top_k}) is above experts ({self.experts})"
        return None

    def checkpoint_config(self) -> dict[str, object]:
        """Return the `config.json` of the exported checkpoint."""
        return {
            "architectures": ["Glm4MoeForCausalLM"],
            "model_type": "glm4_moe",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.dense_width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "partial_rotary_factor": self.rotary_dim / self.head_dim,
            "rope_theta": self.rope_theta,
            "use_qk_norm": True,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_eps,
            "max_position_embeddings": 8 * self.context,
            "moe_intermediate_size": self.expert_width,
            "num_experts_per_tok": self.top_k,
            "n_routed_experts": self.experts,
            "n_shared_experts": 1,
            "routed_scaling_factor": 1.0,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "norm_topk_prob": True,
            "num_nextn_predict_layers": 1,
            "tie_word_embeddings": True,
            "initializer_range": 0.02,
            "bos_token_id": None,
            "eos_token_id": 0,
            "pad_token_id": 0,
            "torch_dtype": "bfloat16",
            "use_cache": True,
        }
