"""Modules that have the native kernels of operations and of parts. Written by ``python -m tools.kernel_index``; do not edit.

So the module is imported when an operation first meets large operands, and no source has to be there. A test compares with what the
``@native`` decorators register.
"""

_NAMES = {
    "families.attention": "nn.functional._attention nn.functional._attention_backward",
    "families.bits": "_conj hash_tensor",
    "families.categories": "random.first_reaching random.running_sums",
    "families.convolution": "_channel_sums _convolution_weight _correlate _spread",
    "families.copies": "_contiguous _copy_into _fill _flip _put_parts _repeat _reshaped_copy _zeros cat clone stack",
    "families.creation": "_joined_parts _progression _triangle_places",
    "families.ctc": "_ctc_alignments",
    "families.distances": "_pdist cdist",
    "families.embedding": "_embedding_backward _index _index_add _index_backward _index_reduce _limits _scatter_reduce _scattered_sums "
    "_weighted_counts embedding gather index_select scatter_add",
    "families.gemm": "bmm matmul mm nn.functional.linear",
    "families.grids": "_grid_sample2d _grid_sample3d _grid_sample_backward",
    "families.histograms": "_equal_bins",
    "families.incomplete_gamma": "_incomplete_gamma",
    "families.lapack": "_cholesky _cholesky_inverse _cholesky_solve _eig _eigh _gelsy _inverse _ldl_factor _ldl_solve _lu_factor _lu_solve "
    "_orgqr _ormqr _solve _solve_triangular _svd geqrf linalg.det linalg.qr linalg.slogdet",
    "families.loss": "nn.functional._binary_cross_entropy nn.functional._binary_cross_entropy_with_logits nn.functional._cross_entropy "
    "nn.functional._cross_entropy_backward nn.functional._huber_loss nn.functional._mse_loss nn.functional._nll_loss "
    "nn.functional._nll_loss_backward nn.functional._smooth_l1_loss nn.functional._smoothed_cross_entropy "
    "nn.functional._smoothed_cross_entropy_backward",
    "families.matrices": "addr dot outer tril triu vdot",
    "families.normalization": "nn.functional._batch_norm nn.functional._batch_norm_fixed nn.functional._batch_norm_fixed_backward "
    "nn.functional._group_norm nn.functional._layer_norm nn.functional._normalized_backward "
    "nn.functional._rms_norm nn.functional._rms_norm_backward",
    "families.optimizer": "optim.norms optim.scale optim.step",
    "families.padding": "nn.functional._pad_by_copy nn.functional._pad_by_copy_backward",
    "families.pointwise": "_cast _sum_of_two",
    "families.pooling": "nn.functional._adaptive_avg_pool1d nn.functional._adaptive_avg_pool2d nn.functional._adaptive_avg_pool_backward "
    "nn.functional._adaptive_max_pool1d nn.functional._adaptive_max_pool2d nn.functional._adaptive_max_pool3d "
    "nn.functional._avg_pool1d nn.functional._avg_pool2d nn.functional._avg_pool_backward nn.functional._max_pool1d "
    "nn.functional._max_pool1d_with_places nn.functional._max_pool2d nn.functional._max_pool2d_with_places "
    "nn.functional._scatter_planes",
    "families.random": "libm random.draw",
    "families.recurrent": "_gru_layer _gru_layer_backward _lstm_layer _lstm_layer_backward _rnn_layer _rnn_layer_backward",
    "families.reduction": "_max_along _max_of_all _min_along _min_of_all _std _sum_to_size _var all amax amin aminmax any argmax argmin "
    "count_nonzero linalg.vector_norm logsumexp mean nansum prod sum",
    "families.rejection": "random.draw_each",
    "families.resampling": "nn.functional._resample nn.functional._resample_backward",
    "families.scan": "cummax cummin cumprod cumsum logcumsumexp",
    "families.softmax": "_log_softmax_backward_data _softmax_backward_data log_softmax softmax",
    "families.sorting": "_order_along _search sort topk",
    "families.sparse": "_bag_sums _csr_times_dense _dots_at_places",
}
FAMILIES = {name: module for module, names in _NAMES.items() for name in names.split()}
