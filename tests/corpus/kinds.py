"""Which rules may answer for a kind of fault."""

from __future__ import annotations

from collections.abc import Mapping

RULES: Mapping[str, frozenset[str]] = {
    kind: frozenset(rules.split())
    for kind, rules in {
        "embedding_loop": "embedding-in-loop",
        "mask_loop": "masking-in-loop",
        "batch_loop_where": "masking-in-loop",
        "where_loop": "masking-in-loop",
        "batch_loop_gather": "elementwise-loop",
        "class_loop": "elementwise-loop",
        "pairwise_loop": "elementwise-loop",
        "head_loop": "elementwise-loop",
        "module_list_loop_same_input": "elementwise-loop",
        "scalar_index_loop": "scalar-access-in-loop",
        "item_in_loop": "scalar-access-in-loop",
        "bool_mask_assign": "boolean-mask-copy",
        "broadcast_masked_select": "boolean-mask-copy",
        "contiguous_churn": "contiguous-churn",
        "missing_no_grad": "grad-mode-in-inference",
        "no_grad_to_inference_mode": "grad-mode-in-inference",
        "host_sync_item": "host-sync",
        "loop_invariant_host_sync": "host-sync",
        "implicit_host_sync": "host-sync",
        "cpu_tensor_then_to_device": "host-tensor-in-forward",
        "constant_rebuilt_each_forward": "constant-rebuilt",
        "repeated_invariant_compute": "constant-rebuilt invariant-in-loop",
        "tensor_from_list_of_arrays": "constant-rebuilt",
        "cat_in_loop": "cat-in-loop",
        "cat_in_loop_kv_cache": "cat-in-loop",
        "repeat_to_expand": "repeat-materialized",
        "manual_attention": "manual-attention",
        "time_loop_invariant_matmul": "invariant-in-loop",
        "time_loop": "invariant-in-loop",
        "cell_time_loop": "recurrence-by-hand",
        "linear_then_slice": "head-before-slice",
        "moe_expert_loop": "expert-loop",
        "repeated_dtype_cast": "dtype-cast-churn",
        "zero_grad_loop": "per-parameter-loop",
        "optimizer_param_loop": "per-parameter-loop",
        "recompile_python_state": "dynamic-shapes",
        # What breaks a graph costs without one as well: the read of a tensor's value is where both rules meet.
        "graph_break": "graph-break host-sync",
        "graph_break_in_loop": "graph-break host-sync",
        "unused_reduction_indices": "unused-result",
        "conv_bias_before_bn": "conv-bias-before-batchnorm",
        "fp32_matmul_without_tf32": "tf32-off",
        "dataloader_wait": "loader-wait",
    }.items()
}
