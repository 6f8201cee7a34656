"""Which of PyTorch's kernels (``torch.ops.aten``) our primitives are.

``_select=select.int`` says that our operation ``_select`` is PyTorch's ``select.int``; without a sign of equality the names are the same.
Where several overloads are listed, a call is the first one that its arguments fit. In-place forms and ``out=`` follow from these.
"""

PRIMITIVES = """
Tensor.unfold=unfold _alias=alias _conj=conj_physical _expand=expand _fft_c2c _fft_c2r _fft_r2c _flip=flip _index=index.Tensor
_index_add=index_add _index_put=index_put _index_reduce=index_reduce _leaky_relu_backward=leaky_relu_backward _log_softmax_backward_data
_max_along=max.dim _max_of_all=max _median_along=median.dim _median_of_all=median _min_along=min.dim _min_of_all=min
_nanmedian_along=nanmedian.dim _nanmedian_of_all=nanmedian
_nonzero=nonzero _pdist=_pdist_forward _polygamma=polygamma _prelu_kernel _repeat=repeat _scatter=scatter.src,scatter.value
_scatter_reduce=scatter_reduce.two _select=select.int _sigmoid_backward=sigmoid_backward _slice=slice.Tensor _softmax_backward_data
_split=split.Tensor _split_with_sizes=split_with_sizes _std=std.correction _tanh_backward=tanh_backward
_threshold_backward=threshold_backward _to_copy _unbind=unbind.int _var=var.correction _view=view _view_dtype=view.dtype
_where=where.self abs acos acosh add=add.Tensor addbmm addcdiv addcmul addmm addmv addr all=all,all.dim,all.dims amax amin aminmax angle
any=any,any.dim,any.dims argmax argmin asin asinh atan atan2 atanh baddbmm bitwise_and=bitwise_and.Tensor,bitwise_and.Scalar
bitwise_left_shift=bitwise_left_shift.Tensor,bitwise_left_shift.Tensor_Scalar bitwise_not bitwise_or=bitwise_or.Tensor,bitwise_or.Scalar
bitwise_right_shift=bitwise_right_shift.Tensor,bitwise_right_shift.Tensor_Scalar bitwise_xor=bitwise_xor.Tensor,bitwise_xor.Scalar bmm
cat ceil celu cholesky_inverse cholesky_solve clamp=clamp,clamp.Tensor clone complex constant_pad_nd convolution copy
copysign=copysign.Tensor,copysign.Scalar cos cosh count_nonzero=count_nonzero,count_nonzero.dim_IntList cummax cummin cumprod cumsum
deg2rad diag_embed diagonal digamma div=div.Tensor,div.Tensor_mode dot embedding eq=eq.Tensor,eq.Scalar erf erfc erfinv exp exp2 expm1
fill=fill.Scalar,fill.Tensor floor floor_divide fmax fmin fmod=fmod.Tensor,fmod.Scalar frac frexp=frexp.Tensor gather gcd
ge=ge.Tensor,ge.Scalar geqrf gt=gt.Tensor,gt.Scalar hardshrink heaviside histc hypot i0 igamma igammac index_copy
index_fill=index_fill.int_Scalar,index_fill.int_Tensor index_select isinf isnan isneginf isposinf kthvalue lcm le=le.Tensor,le.Scalar
lerp=lerp.Scalar,lerp.Tensor lgamma linalg.cholesky_ex=linalg_cholesky_ex linalg.cross=linalg_cross linalg.eig=linalg_eig
linalg.inv_ex=linalg_inv_ex linalg.ldl_factor_ex=linalg_ldl_factor_ex linalg.lu_factor_ex=linalg_lu_factor_ex
linalg.lu_solve=linalg_lu_solve linalg.matrix_exp=linalg_matrix_exp linalg.qr=linalg_qr linalg.solve_triangular=linalg_solve_triangular
linalg.vector_norm=linalg_vector_norm log log10 log1p log2 log_softmax=_log_softmax logaddexp logaddexp2 logcumsumexp logical_and
logical_not logical_or logical_xor logit logsumexp lt=lt.Tensor,lt.Scalar masked_fill=masked_fill.Scalar,masked_fill.Tensor
masked_scatter masked_select maximum mean=mean,mean.dim minimum mm mode mul=mul.Tensor mv nan_to_num nansum native_channel_shuffle
ne=ne.Tensor,ne.Scalar neg nextafter nn.functional.elu=elu nn.functional.gelu=gelu nn.functional.hardsigmoid=hardsigmoid
nn.functional.hardswish=hardswish nn.functional.hardtanh=hardtanh nn.functional.leaky_relu=leaky_relu nn.functional.mish=mish
nn.functional.silu=silu nn.functional.softplus=softplus nn.functional.softshrink=softshrink permute polar
pow=pow.Tensor_Scalar,pow.Tensor_Tensor,pow.Scalar prod=prod,prod.dim_int put rad2deg reciprocal relu
remainder=remainder.Tensor,remainder.Scalar,remainder.Scalar_Tensor roll rot90 round=round,round.decimals rsqrt
rsub=rsub.Tensor,rsub.Scalar scatter_add selu sgn sigmoid sign signbit sin sinc sinh softmax=_softmax sort=sort,sort.stable
special.airy_ai=special_airy_ai special.bessel_j0=special_bessel_j0 special.bessel_j1=special_bessel_j1
special.bessel_y0=special_bessel_y0 special.bessel_y1=special_bessel_y1 special.entr=special_entr special.erfcx=special_erfcx
special.i0e=special_i0e special.i1=special_i1 special.i1e=special_i1e special.log_ndtr=special_log_ndtr
special.modified_bessel_i0=special_modified_bessel_i0 special.modified_bessel_i1=special_modified_bessel_i1
special.modified_bessel_k0=special_modified_bessel_k0 special.modified_bessel_k1=special_modified_bessel_k1 special.ndtri=special_ndtri
special.scaled_modified_bessel_k0=special_scaled_modified_bessel_k0 special.scaled_modified_bessel_k1=special_scaled_modified_bessel_k1
special.spherical_bessel_j0=special_spherical_bessel_j0 special.xlog1py=special_xlog1py special.zeta=special_zeta sqrt
squeeze=squeeze,squeeze.dim,squeeze.dims stack sub=sub.Tensor sum=sum,sum.dim_IntList t take tan tanh threshold topk trace
transpose=transpose.int tril triu trunc unsqueeze vdot view_as_complex view_as_real
xlogy=xlogy.Tensor,xlogy.Scalar_Other,xlogy.Scalar_Self zero
"""
