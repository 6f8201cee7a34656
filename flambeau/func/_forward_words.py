"""What forward mode knows of operations beyond what follows from their declarations; a word that is missing costs time, nothing else.

linear       the tangent of the result is what the operation makes of the operands' tangents, zeros in place of those that have none
bilinear     ... or the sum over the operands of what it makes of one tangent and the other operands
selects      results are (elements of the operand along ``dim``, their places)
reduces      each result depends on one slice of the operand, so that the gradient of ones has all slopes
symmetric    the matrix of the derivative of a real operand is its own transpose
constant     a result that does not depend on its differentiable operands
holomorphic  an element-wise operation whose rule serves complex numbers too, conjugated around
"""

from __future__ import annotations

WORDS = {
    "linear": (
        "_conj _reshaped_copy _sum_to_size _scatter_part _put_parts _unfold_backward _diagonal_backward clone _to_copy "
        "_to_device _repeat _flip roll rot90 sum mean cumsum tril triu diag_embed trace _on_diagonal _above_diagonal "
        "_channel_sums cat stack _block_diag native_channel_shuffle _segment_sums _segment_spread _fft_c2c _fft_r2c _fft_c2r "
        "_pad_by_copy _pad_by_copy_backward _avg_pool_backward _avg_pool1d _avg_pool2d _avg_pool3d _adaptive_avg_pool_backward "
        "_adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d _resample _resample_backward _im2col _col2im _index "
        "_index_backward _index_put _zero_at gather _scattered_sums _scatter scatter_add index_select _index_add index_copy "
        "take put masked_select masked_scatter embedding _embedding_backward _bag_sums _max_pool_pick _scatter_planes "
        "_gather_planes _keep_where _max_unpool1d _max_unpool2d _max_unpool3d"
    ),
    "constant": "_permutation",
    "bilinear": "matmul mm bmm mv dot vdot outer linear convolution",
    "selects": "_max_along _min_along sort topk kthvalue _median_along mode cummax cummin",
    "reduces": "prod logsumexp amax amin _var _std vector_norm _max_of_all _min_of_all _median_of_all _nanmedian_of_all",
    "symmetric": "softmax",
    "holomorphic": (
        "add sub rsub mul addcmul addcdiv lerp div neg pow square sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh "
        "tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sigmoid _tanh_backward _sigmoid_backward _where sinc silu"
    ),
}
WORD_OF = {name: word for word, names in WORDS.items() for name in names.split()}
