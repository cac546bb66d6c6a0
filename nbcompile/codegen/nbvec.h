/* nbvec.h: SIMD vectors and their functions, for generated kernels.
 *
 *   Vec<float, 8> x = load<float, 8>(in0 + i0, lanes);
 *   store(out + i0, lanes, tanh(x + 1.0f));
 *
 * Vec<T, W> holds W values of type T in one register. It is written with the vector extensions of GCC and Clang,
 * so the same text becomes AVX-512, AVX2, SSE or NEON. Nothing is included: a kernel compiles in some 60 ms,
 * where <immintrin.h> alone would cost 160.
 *
 * User arithmetic is rounded operation by operation as in eager (-ffp-contract=off); inside the functions below
 * a fused multiply-add is explicit. The functions of float32 and float64 err by at most 2 units in the last
 * place, a few by 3.5 (tests/codegen/test_nbvec.py); their polynomials were fitted by tests/codegen/fit_polynomials.py.
 * Rare arguments take a slow path through the C library, lane by lane.
 */
#ifndef NBVEC_H
#define NBVEC_H

#if defined(__AVX512F__)
#define NB_BYTES 64
#elif defined(__AVX__)
#define NB_BYTES 32
#else
#define NB_BYTES 16
#endif
#if defined(__x86_64__) && !defined(__clang__) && !defined(NB_GENERIC)
#define NB_X86 1 /* GCC's names of single instructions */
#endif
#define INLINE static inline __attribute__((always_inline))
#define METHOD inline __attribute__((always_inline))
#define EXPORT extern "C" __attribute__((visibility("default")))
#define STEP __attribute__((always_inline))
#define COLD static __attribute__((noinline, cold)) /* slow path: kept out of the hot code */
#define NOINLINE static __attribute__((noinline)) /* long, and does much work per call: compiled once, not inlined at every call */
#define FOR_EACH_LANE(j) for (int j = 0; j < W; j++)

namespace nb {

typedef __INT8_TYPE__ i8;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef float f32;
typedef double f64;
enum class bf16 : u16 {}; /* 16-bit floats are only loaded, stored and converted */
enum class f16 : u16 {};

constexpr int LANES32 = NB_BYTES / 4; /* lanes of a kernel whose widest value has 32 bits */
constexpr int LANES64 = NB_BYTES / 8;

/* Per-call state: the number of threads, and the index that was out of bounds, if one was. */
struct Context {
  i64 threads, site, index, size;
};

/* ------------------------------------------------------------------ types */

template <class T> struct LaneOf { typedef T type; };
template <> struct LaneOf<bf16> { typedef u16 type; };
template <> struct LaneOf<f16> { typedef u16 type; };
template <int size> struct IntOf;
template <> struct IntOf<1> { typedef i8 type; };
template <> struct IntOf<2> { typedef i16 type; };
template <> struct IntOf<4> { typedef i32 type; };
template <> struct IntOf<8> { typedef i64 type; };
template <class T> constexpr bool is_float = false;
template <> constexpr bool is_float<f32> = true;
template <> constexpr bool is_float<f64> = true;
template <bool> struct If {};
template <> struct If<true> { typedef int type; };
template <class A, class B> constexpr bool same_type = false;
template <class A> constexpr bool same_type<A, A> = true;

template <class L, int W> struct RawOf {
  typedef L type __attribute__((vector_size(W * sizeof(L))));
  typedef L unaligned __attribute__((vector_size(W * sizeof(L)), aligned(1), may_alias)); /* in memory: any alignment */
};
template <class T, int W> using Raw = typename RawOf<typename LaneOf<T>::type, W>::type;
template <class T, int W> using Unaligned = typename RawOf<typename LaneOf<T>::type, W>::unaligned;
template <class T, int W> using Bits = typename RawOf<typename IntOf<sizeof(T)>::type, W>::type;

template <class T, int W> struct Vec {
  typedef typename LaneOf<T>::type Lane;
  Raw<T, W> v;
  METHOD Vec() : v{} {}
  METHOD Vec(Raw<T, W> raw) : v(raw) {}
  /* A scalar operand is broadcast. It is x - 0 and not x + 0, which would make 0.0 of -0.0. */
  METHOD Vec(Lane x) : v(x - Raw<T, W>{}) {}
  template <int N, class = typename If<N == 1 && W != 1>::type> METHOD Vec(Vec<T, N> x) : Vec(x.v[0]) {}
  METHOD Lane operator[](i64 j) const { return v[j]; }
};

/* Boolean vector: all bits of a lane set or none, in lanes as wide as the kernel's. */
template <int W> struct Vec<bool, W> {
  typedef typename IntOf<W == LANES32 ? 4 : 8>::type Lane;
  typedef typename RawOf<Lane, W>::type R;
  R v;
  METHOD Vec() : v{} {}
  /* -1 has all bits set. */
  METHOD Vec(bool x) : v((Lane)-(Lane)x - R{}) {}
  METHOD Vec(Raw<i8, W> raw) : v(__builtin_convertvector(raw, R)) {}
  METHOD Vec(Raw<i16, W> raw) : v(__builtin_convertvector(raw, R)) {}
  METHOD Vec(Raw<i32, W> raw) : v(__builtin_convertvector(raw, R)) {}
  METHOD Vec(Raw<i64, W> raw) : v(__builtin_convertvector(raw, R)) {}
  template <int N, class = typename If<N == 1 && W != 1>::type> METHOD Vec(Vec<bool, N> x) : v((Lane)x.v[0] - R{}) {}
  METHOD bool operator[](i64 j) const { return v[j] != 0; }
  template <class T> METHOD Bits<T, W> bits() const { return __builtin_convertvector(v, Bits<T, W>); }
};

/* Count rounded up to whole vectors, so that what follows starts at a multiple of W. */
INLINE i64 whole_vectors(i64 count) { return (count + 15) / 16 * 16; }

/* Active lanes: all, the first few (the tail of a row), or those of a mask (Vec<bool, W>). */
struct All {};
struct First { i64 count; };

/* Mask as an integer with one bit per lane: the operand of AVX-512's masked loads, one instruction to compute. */
#if defined(NB_X86) && defined(__AVX512VL__)
#define NB_MASKS 1
template <int W> INLINE u32 mask_bits(Vec<bool, W> m) {
  if constexpr (sizeof(m.v) == 64 && W == 16) return (u16)__builtin_ia32_ptestmd512(m.v, m.v, (short)-1);
  else if constexpr (sizeof(m.v) == 64) return (u8)__builtin_ia32_ptestmq512((Raw<long long, 8>)m.v, (Raw<long long, 8>)m.v, (char)-1);
  else { u32 bits = 0; FOR_EACH_LANE(j) bits |= (u32)(m.v[j] != 0) << j; return bits; }
}
template <int W> INLINE u32 mask_bits(First lanes) { return lanes.count >= W ? (1u << W) - 1 : (1u << lanes.count) - 1; }
template <int W> INLINE bool every(Vec<bool, W> m) { return mask_bits(m) == (1u << W) - 1; }
template <int W> INLINE bool some(Vec<bool, W> m) { return mask_bits(m) != 0; }
#elif defined(NB_X86) && defined(__AVX__)
template <int W> INLINE int sign_bits(Vec<bool, W> m) {
  if constexpr (sizeof(m.v) == 32 && W == 8) return __builtin_ia32_movmskps256((Raw<f32, 8>)m.v);
  else if constexpr (sizeof(m.v) == 32 && W == 4) return __builtin_ia32_movmskpd256((Raw<f64, 4>)m.v);
  else { int bits = 0; FOR_EACH_LANE(j) bits |= (m.v[j] != 0) << j; return bits; }
}
template <int W> INLINE bool every(Vec<bool, W> m) { return sign_bits(m) == (1 << W) - 1; }
template <int W> INLINE bool some(Vec<bool, W> m) { return sign_bits(m) != 0; }
#else
template <int W> INLINE bool every(Vec<bool, W> m) {
  bool all = true;
  FOR_EACH_LANE(j) all &= m.v[j] != 0;
  return all;
}
template <int W> INLINE bool some(Vec<bool, W> m) {
  bool any = false;
  FOR_EACH_LANE(j) any |= m.v[j] != 0;
  return any;
}
#endif

template <int W> INLINE Vec<bool, W> mask_of(All) { return Vec<bool, W>(true); }
template <int W> INLINE Vec<bool, W> mask_of(First lanes) {
  Vec<bool, W> m;
  FOR_EACH_LANE(j) m.v[j] = j < lanes.count ? -1 : 0;
  return m;
}
template <int W> INLINE Vec<bool, W> mask_of(Vec<bool, W> m) { return m; }

/* --------------------------------------------------------------- operators */

#define NB_INFIX(op)                                                                                             \
  template <class T, int W> INLINE Vec<T, W> operator op(Vec<T, W> a, Vec<T, W> b) { return (Raw<T, W>)(a.v op b.v); }
NB_INFIX(+) NB_INFIX(-) NB_INFIX(*) NB_INFIX(&) NB_INFIX(|) NB_INFIX(^)
#undef NB_INFIX
#define NB_COMPARE(op)                                                                                           \
  template <class T, int W> INLINE Vec<bool, W> operator op(Vec<T, W> a, Vec<T, W> b) { return (Bits<T, W>)(a.v op b.v); }
NB_COMPARE(==) NB_COMPARE(!=) NB_COMPARE(<) NB_COMPARE(<=) NB_COMPARE(>) NB_COMPARE(>=)
#undef NB_COMPARE
template <class T, int W> INLINE Vec<T, W> operator-(Vec<T, W> a) { return (Raw<T, W>)-a.v; }
template <class T, int W> INLINE Vec<T, W> operator~(Vec<T, W> a) { return (Raw<T, W>)~a.v; }

#define NB_LOGIC(op)                                                                                             \
  template <int W> INLINE Vec<bool, W> operator op(Vec<bool, W> a, Vec<bool, W> b) { return Vec<bool, W>(a.v op b.v); }
NB_LOGIC(&) NB_LOGIC(|) NB_LOGIC(^)
#undef NB_LOGIC
template <int W> INLINE Vec<bool, W> operator!(Vec<bool, W> a) { return Vec<bool, W>(~a.v); }
template <int W> INLINE Vec<bool, W> operator~(Vec<bool, W> a) { return !a; }
template <int W> INLINE Vec<bool, W> operator==(Vec<bool, W> a, Vec<bool, W> b) { return !(a ^ b); }
template <int W> INLINE Vec<bool, W> operator!=(Vec<bool, W> a, Vec<bool, W> b) { return a ^ b; }
template <int W> INLINE Vec<bool, W> operator<(Vec<bool, W> a, Vec<bool, W> b) { return !a & b; }
template <int W> INLINE Vec<bool, W> operator<=(Vec<bool, W> a, Vec<bool, W> b) { return !a | b; }
template <int W> INLINE Vec<bool, W> operator>(Vec<bool, W> a, Vec<bool, W> b) { return a & !b; }
template <int W> INLINE Vec<bool, W> operator>=(Vec<bool, W> a, Vec<bool, W> b) { return a | !b; }

template <class T, int W> INLINE Vec<T, W> where(Vec<bool, W> m, Vec<T, W> a, Vec<T, W> b) {
  return m.template bits<typename LaneOf<T>::type>() ? a.v : b.v;
}
template <int W> INLINE Vec<bool, W> where(Vec<bool, W> m, Vec<bool, W> a, Vec<bool, W> b) { return (m & a) | (!m & b); }

template <int W> INLINE Vec<f32, W> operator/(Vec<f32, W> a, Vec<f32, W> b) { return a.v / b.v; }
template <int W> INLINE Vec<f64, W> operator/(Vec<f64, W> a, Vec<f64, W> b) { return a.v / b.v; }

template <class To, class From, int W> INLINE Vec<To, W> bit_cast(Vec<From, W> x) { return (Raw<To, W>)x.v; }

/* ------------------------------------------------------------- conversions */

/* A bfloat16 is the upper half of a float32. */
template <int W> INLINE Vec<f32, W> widen(Vec<bf16, W> x) {
  return bit_cast<f32>(Vec<u32, W>(__builtin_convertvector(x.v, Raw<u32, W>) << 16));
}
template <int W> INLINE Vec<bf16, W> narrow(Vec<f32, W> x, bf16) {
  Raw<u32, W> u = (Raw<u32, W>)x.v, nan = u - u + 0x7fc00000;
  Raw<u32, W> rounded = x.v == x.v ? u + 0x7fff + ((u >> 16) & 1) : nan; /* half to even */
  return __builtin_convertvector(rounded >> 16, Raw<u16, W>);
}
template <int W> INLINE Vec<f32, W> widen(Vec<f16, W> x) {
  Raw<u32, W> h = __builtin_convertvector(x.v, Raw<u32, W>);
  Raw<u32, W> sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
  Raw<f32, W> scaled = (Raw<f32, W>)rest * 0x1p112f; /* re-biases the exponent, subnormals included */
  Raw<u32, W> special = (Raw<u32, W>)((Raw<i32, W>)rest >= 0x0f800000) & 0x7f800000;
  return (Raw<f32, W>)((Raw<u32, W>)scaled | special | sign);
}
template <int W> INLINE Vec<f16, W> narrow(Vec<f32, W> x, f16) {
  typedef Raw<i32, W> I;
  I all = (I)x.v, u = all & 0x7fffffff, sign = (I)((Raw<u32, W>)all >> 16) & 0x8000;
  I normal = (u + (I)((0xc8000fffu) - Raw<u32, W>{}) + ((u >> 13) & 1)) >> 13; /* half to even */
  /* Below 2^-14 (0x38800000) a float16 counts units of 2^-24. That is the last bit of a float32 from 0.5 to 1, so
   * that adding 0.5 rounds to such a unit, and the difference of the bits is their number. From 65536 on
   * (0x47800000) it is infinite. */
  I subnormal = (I)((Raw<f32, W>)u + 0.5f) - 0x3f000000;
  I huge = (I)(u > 0x7f800000), h = (huge & 0x7e00) | (~huge & 0x7c00);
  I large = (I)(u >= 0x47800000), small = (I)(u < 0x38800000);
  h = (large & h) | (~large & ((small & subnormal) | (~small & normal)));
  return __builtin_convertvector((Raw<u32, W>)(h | sign), Raw<u16, W>);
}

/* Hardware conversions of float16 (F16C, AVX-512); they round as the code above. */
#if defined(__F16C__) && !defined(__clang__)
INLINE Vec<f32, 8> widen(Vec<f16, 8> x) { return __builtin_ia32_vcvtph2ps256((Raw<i16, 8>)x.v); }
INLINE Vec<f16, 8> narrow(Vec<f32, 8> x, f16) { return (Raw<f16, 8>)__builtin_ia32_vcvtps2ph256(x.v, 0); }
#ifdef __AVX512F__
INLINE Vec<f32, 16> widen(Vec<f16, 16> x) { return __builtin_ia32_vcvtph2ps512_mask((Raw<i16, 16>)x.v, Raw<f32, 16>{}, (short)-1, 4); }
INLINE Vec<f16, 16> narrow(Vec<f32, 16> x, f16) { return (Raw<f16, 16>)__builtin_ia32_vcvtps2ph512_mask(x.v, 0, Raw<i16, 16>{}, (short)-1); }
#endif
#endif

/* Hardware conversion to bfloat16. It flushes subnormals to 0, so these take the slow path. */
#if defined(__AVX512BF16__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
INLINE Vec<bf16, 16> narrow(Vec<f32, 16> x, bf16) {
  Raw<u16, 16> near;
  u16 subnormal;
  asm("vfpclassps $0x20, %1, %0" : "=k"(subnormal) : "v"(x.v));
  if (__builtin_expect(subnormal, 0)) return narrow<16>(x, bf16{});
  asm("vcvtneps2bf16 %1, %0" : "=v"(near) : "v"(x.v));
  return near;
}
#endif

/* Widening by a factor of 2: GCC has an instruction per step, but converts bytes to 32 bits lane by lane. */
template <class T, int W> INLINE auto wider(Vec<T, W> x) {
  typedef typename IntOf<2 * sizeof(T)>::type Wide;
  return Vec<Wide, W>(__builtin_convertvector(x.v, Raw<Wide, W>));
}
/* Conversion of floats to integers. Where it is done lane by lane (one lane, or no instruction for vectors), GCC takes the
 * integer that is converted back for trunc(x), which has a -0 and numbers beyond the integers; the asm hides that. */
template <class To, class From, int W> INLINE Raw<To, W> to_integers(Vec<From, W> x) {
#if defined(__AVX512DQ__) || defined(__aarch64__)
  constexpr bool has_instruction = W > 1;
#else
  constexpr bool has_instruction = W > 1 && same_type<From, f32> && same_type<To, i32>;
#endif
  if constexpr (has_instruction) return __builtin_convertvector(x.v, Raw<To, W>);
  Raw<To, W> whole;
  for (int lane = 0; lane < W; lane++) {
    To number = (To)x.v[lane];
    asm("" : "+r"(number));
    whole[lane] = number;
  }
  return whole;
}
template <class To, class From, int W> INLINE Vec<To, W> cast(Vec<From, W> x) {
  if constexpr (same_type<To, From>) return x;
  else if constexpr (same_type<To, bool>) return Vec<bool, W>((Bits<From, W>)(x.v != Raw<From, W>{}));
  else if constexpr (same_type<From, bool>) return cast<To>(Vec<i32, W>(-__builtin_convertvector(x.v, Raw<i32, W>)));
  else if constexpr (same_type<From, bf16> || same_type<From, f16>) return cast<To>(widen(x));
  else if constexpr (same_type<To, bf16> || same_type<To, f16>) return narrow(cast<f32>(x), To{});
  else if constexpr (is_float<From> && sizeof(To) < 4) return cast<To>(cast<i32>(x));
  else if constexpr (is_float<From> && !is_float<To>) return to_integers<To>(x);
  else if constexpr (2 * sizeof(From) < sizeof(To) || (sizeof(From) < 4 && is_float<To>)) return cast<To>(wider(x));
  else return __builtin_convertvector(x.v, Raw<To, W>);
}
template <class To, int W> INLINE Vec<To, W> cast(Vec<bf16, W> x) {
  if constexpr (same_type<To, bool>) return Vec<bool, W>((Bits<u16, W>)((x.v & 0x7fff) != 0));
  else return cast<To>(widen(x));
}
template <class To, int W> INLINE Vec<To, W> cast(Vec<f16, W> x) {
  if constexpr (same_type<To, bool>) return Vec<bool, W>((Bits<u16, W>)((x.v & 0x7fff) != 0));
  else return cast<To>(widen(x));
}

/* ---------------------------------------------------------- loads and stores */

/* Scalar load of one lane, as the lane type of T; bool is one byte in memory. */
template <class T> INLINE auto peek(const T *p) { return *(const typename LaneOf<T>::type *)p; }
INLINE u8 peek(const bool *p) { return *(const u8 *)p; }
template <class T, int W> INLINE Vec<T, W> from_lanes(Raw<T, W> v) { return v; }

template <class T, int W> INLINE auto fetch(const T *p, All) {
  if constexpr (same_type<T, bool>) return (Raw<u8, W>)*(const Unaligned<u8, W> *)p;
  else return (Raw<T, W>)*(const Unaligned<T, W> *)p;
}
#ifdef NB_MASKS
template <class T, int W> constexpr bool has_masks = !same_type<T, bool> && (W == 16 ? sizeof(T) == 4 : W == 8 && sizeof(T) >= 4);
template <class T, int W> INLINE Raw<T, W> fetch_bits(const T *p, u32 bits) {
  Raw<T, W> v = {};
  if constexpr (W == 16) return (Raw<T, W>)__builtin_ia32_loadups512_mask((const f32 *)p, (Raw<f32, 16>)v, (short)bits);
  else if constexpr (sizeof(T) == 8) return (Raw<T, W>)__builtin_ia32_loadupd512_mask((const f64 *)p, (Raw<f64, 8>)v, (char)bits);
  else return (Raw<T, W>)__builtin_ia32_loadups256_mask((const f32 *)p, (Raw<f32, 8>)v, (char)bits);
}
template <class T, int W> INLINE void store_bits(T *p, u32 bits, Raw<T, W> v) {
  if constexpr (W == 16) __builtin_ia32_storeups512_mask((f32 *)p, (Raw<f32, 16>)v, (short)bits);
  else if constexpr (sizeof(T) == 8) __builtin_ia32_storeupd512_mask((f64 *)p, (Raw<f64, 8>)v, (char)bits);
  else __builtin_ia32_storeups256_mask((f32 *)p, (Raw<f32, 8>)v, (char)bits);
}
#else
template <class T, int W> constexpr bool has_masks = false;
template <int W, class L> INLINE u32 mask_bits(L) { return 0; }
template <class T, int W> INLINE Raw<T, W> fetch_bits(const T *, u32) { return {}; }
template <class T, int W> INLINE void store_bits(T *, u32, Raw<T, W>) {}
#endif

template <class T, int W> INLINE auto fetch(const T *p, First lanes) {
  if constexpr (has_masks<T, W>) return fetch_bits<T, W>(p, mask_bits<W>(lanes));
#if defined(NB_X86) && defined(__AVX__)
  else if constexpr (!same_type<T, bool> && sizeof(T) == 4 && W == 8)
    return (Raw<T, W>)__builtin_ia32_maskloadps256((const Raw<f32, 8> *)p, (Raw<i32, 8>)mask_of<W>(lanes).template bits<i32>());
  else if constexpr (!same_type<T, bool> && sizeof(T) == 8 && W == 4)
    return (Raw<T, W>)__builtin_ia32_maskloadpd256((const Raw<f64, 4> *)p, (Raw<long long, 4>)mask_of<W>(lanes).template bits<i64>());
#endif
  else {
    decltype(fetch<T, W>(p, All{})) v = {};
    if (lanes.count >= W) return fetch<T, W>(p, All{});
    for (i64 j = 0; j < lanes.count; j++) v[j] = peek(p + j);
    return v;
  }
}
/* Without an active lane the address may be anywhere. The instruction would ignore a page fault, but takes a thousand
 * times as long for one: a branch comes first. */
template <class T, int W> INLINE auto fetch(const T *p, Vec<bool, W> m) {
  decltype(fetch<T, W>(p, All{})) v = {};
  if (!some(m)) return v;
  if constexpr (has_masks<T, W>) return fetch_bits<T, W>(p, mask_bits(m));
#if defined(NB_X86) && defined(__AVX__)
  else if constexpr (!same_type<T, bool> && sizeof(T) == 4 && W == 8)
    return (Raw<T, W>)__builtin_ia32_maskloadps256((const Raw<f32, 8> *)p, (Raw<i32, 8>)m.template bits<i32>());
  else if constexpr (!same_type<T, bool> && sizeof(T) == 8 && W == 4)
    return (Raw<T, W>)__builtin_ia32_maskloadpd256((const Raw<f64, 4> *)p, (Raw<long long, 4>)m.template bits<i64>());
#endif
  else {
    if (every(m)) return fetch<T, W>(p, All{});
    FOR_EACH_LANE(j) if (m.v[j]) v[j] = peek(p + j);
    return v;
  }
}
/* Contiguous load of W values. Inactive lanes are 0, and their memory is not accessed. */
template <class T, int W, class L> INLINE Vec<T, W> load(const T *p, L lanes) {
  if constexpr (same_type<T, bool>) return cast<bool>(Vec<u8, W>(fetch<bool, W>(p, lanes)));
  else return fetch<T, W>(p, lanes);
}

/* Conditional load, for an index that all lanes share: nothing is accessed if it is out of range. */
template <class T, int W, class L> INLINE Vec<T, W> load_if(bool in_range, const T *p, L lanes) {
  return in_range ? load<T, W>(p, lanes) : Vec<T, W>();
}

/* Gather: the offset of each lane is a function of the lane. */
template <class T, int W, class L, class F> INLINE Vec<T, W> gather(const T *p, L lanes, F offset) {
#if defined(NB_X86) && defined(__AVX512F__)
  /* The gather instruction takes eight 64-bit offsets. */
  if constexpr ((W == 16 && sizeof(T) == 4) || (W == 8 && sizeof(T) >= 4)) {
    u32 active = mask_bits<W>(mask_of<W>(lanes));
    Raw<T, W> result = {};
    for (int half = 0; half < W; half += 8) {
      Raw<i64, 8> offsets;
      for (int j = 0; j < 8; j++) offsets[j] = offset(j + half);
      if constexpr (sizeof(T) == 4) {
        auto found = __builtin_ia32_gatherdiv16si(Raw<i32, 8>{}, p, (Raw<long long, 8>)offsets, (u8)(active >> half), 4);
        __builtin_memcpy((char *)&result + half * 4, &found, 32);
      } else {
        result = (Raw<T, W>)__builtin_ia32_gatherdiv8di(Raw<long long, 8>{}, p, (Raw<long long, 8>)offsets, (u8)active, 8);
      }
    }
    return result;
  }
#endif
  decltype(fetch<T, W>(p, All{})) v = {};
  if constexpr (same_type<L, All>) { FOR_EACH_LANE(j) v[j] = peek(p + offset(j)); }
  else {
    Vec<bool, W> m = mask_of<W>(lanes);
    FOR_EACH_LANE(j) if (m.v[j]) v[j] = peek(p + offset(j));
  }
  if constexpr (same_type<T, bool>) return cast<bool>(Vec<u8, W>(v));
  else return v;
}

/* Gather with a vector of offsets. */
template <class T, int W, class L> INLINE Vec<T, W> gather_offsets(const T *p, L lanes, Vec<i64, W> offsets) {
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (W == 8 && sizeof(T) == 4)
    return (Raw<T, W>)__builtin_ia32_gatherdiv16si(Raw<i32, 8>{}, p, (Raw<long long, 8>)offsets.v, (u8)mask_bits<W>(mask_of<W>(lanes)), 4);
  if constexpr (W == 8 && sizeof(T) == 8)
    return (Raw<T, W>)__builtin_ia32_gatherdiv8di(Raw<long long, 8>{}, p, (Raw<long long, 8>)offsets.v, (u8)mask_bits<W>(mask_of<W>(lanes)), 8);
#endif
  return gather<T, W>(p, lanes, [&](i64 j) { return offsets[j]; });
}

/* Gather whose offset grows by at most 1 from lane to lane (as at the border of a padded row): mostly contiguous,
 * or contiguous but for the first few lanes, so that one load is enough. */
template <class T, int W, class L, class F> INLINE Vec<T, W> gather_unit_slope(const T *p, L lanes, F offset) {
  const i64 first = offset(0), last = offset(W - 1);
  if (last - first == W - 1) return load<T, W>(p + first, lanes);
#ifdef NB_MASKS
  if constexpr (has_masks<T, W>) {
    i64 alone = 0, count = W; /* lanes loaded one by one: those before a contiguous run, or all of a short tail */
    if constexpr (same_type<L, First>) alone = count = lanes.count;
    else while (alone < 4 && last - offset(alone) != W - 1 - alone) alone++;
    if (alone <= 4 && (count == alone || last - offset(alone) == W - 1 - alone)) {
      Raw<T, W> v = fetch_bits<T, W>(p + last - (W - 1), ((1u << count) - 1) & ~((1u << alone) - 1));
      for (i64 j = 0; j < alone; j++) v[j] = p[offset(j)];
      return v;
    }
  }
#endif
  return gather<T, W>(p, lanes, offset);
}

/* The offsets that gather_unit_slope() reads along a loop of N iterations, worked out by the C++ compiler, and on for the lanes past the end. */
template <int N> struct OffsetTable { i32 at[N + 64]; };
template <int N, class F> constexpr OffsetTable<N> offsets_of(F offset) {
  OffsetTable<N> offsets{};
  for (i64 i = 0; i < N + 64; i++) offsets.at[i] = offset(i);
  return offsets;
}
template <class T, int W, class L> INLINE Vec<T, W> gather_unit_slope(const T *p, L lanes, const i32 *at) {
#ifdef NB_MASKS
  const i32 count = at[W - 1] - at[0] + 1; /* few distinct elements: one load and a shuffle */
  if constexpr (W == 16 && sizeof(T) == 4 && same_type<L, All>) if (count > 0 && count <= W * 3 / 4) {
    const Vec<i32, W> which = load<i32, W>(at, lanes) - Vec<i32, W>(at[0]);
    if (every((which >= Vec<i32, W>(0)) & (which < Vec<i32, W>(count))))
      return __builtin_shuffle(fetch_bits<T, W>(p + at[0], (1u << count) - 1), which.v);
  }
#endif
  return gather_unit_slope<T, W>(p, lanes, [&](i64 j) { return (i64)at[j]; });
}

/* Gather in which each element is repeated `times` times; `at` is the position of the first lane. */
template <class T, int W, int times, class L, class F> INLINE Vec<T, W> load_repeated(const T *p, i64 at, L lanes, F offset) {
#ifdef NB_MASKS
  if constexpr (has_masks<T, W> && same_type<L, All> && W % times == 0) {
    Bits<T, W> which;
    FOR_EACH_LANE(j) which[j] = j / times;
    if (at % times == 0) return __builtin_shuffle(fetch_bits<T, W>(p + offset(0), (1u << W / times) - 1), which);
  }
#endif
  return gather<T, W>(p, lanes, offset);
}

/* Active lanes of one of the loads from which a strided load is put together. */
INLINE All spread(All, i64, i64) { return {}; }
INLINE First spread(First lanes, i64 step, i64 begin) {
  const i64 left = (lanes.count - 1) * step + 1 - begin;
  return {left < 0 ? 0 : left};
}
/* Strided load with a small stride: `step` contiguous loads, merged by shuffles. */
template <class T, int W, int step, class L> INLINE Vec<T, W> load_every_nth(const T *p, L lanes) {
  Raw<T, W> result = load<T, W>(p, spread(lanes, step, 0)).v;
#pragma GCC unroll 4
  for (int part = 1; part < step; part++) { /* the last load ends with the last value: nothing beyond it is accessed */
    Bits<T, W> from;
    FOR_EACH_LANE(j) from[j] = j * step / (W - 1) >= part ? W + j * step - part * (W - 1) : part > 1 ? j : j * step;
    result = __builtin_shuffle(result, load<T, W>(p + part * (W - 1), spread(lanes, step, part * (W - 1))).v, from);
  }
  return result;
}
template <class T, int W> INLINE Vec<T, W> load_reversed(const T *p) {
  Bits<T, W> from;
  FOR_EACH_LANE(j) from[j] = W - 1 - j;
  return __builtin_shuffle(load<T, W>(p - (W - 1), All{}).v, from);
}
template <class T, int W, class L> INLINE Vec<T, W> strided(const T *p, i64 step, L lanes) {
#ifdef NB_X86
  if constexpr ((same_type<L, All> && !same_type<T, bool> && sizeof(T) > 1) || (same_type<L, First> && has_masks<T, W>)) {
    if (__builtin_constant_p(step == 2) && step == 2) return load_every_nth<T, W, 2>(p, lanes);
    if (__builtin_constant_p(step == 3) && step == 3) return load_every_nth<T, W, 3>(p, lanes);
    if (__builtin_constant_p(step == 4) && step == 4) return load_every_nth<T, W, 4>(p, lanes);
    if constexpr (same_type<L, All>) if (__builtin_constant_p(step == -1) && step == -1) return load_reversed<T, W>(p);
  }
#endif
#if defined(NB_X86) && defined(__AVX512F__)
  /* The gather instruction with 32-bit offsets. */
  if constexpr (W == 16 && sizeof(T) == 4) {
    Raw<i32, W> offsets;
    FOR_EACH_LANE(j) offsets[j] = j * (i32)step;
    if (step < (1 << 26) && step > -(1 << 26))
      return (Raw<T, W>)__builtin_ia32_gathersiv16si(Raw<i32, W>{}, p, offsets, (u16)mask_bits<W>(mask_of<W>(lanes)), 4);
  }
#endif
  return gather<T, W>(p, lanes, [&](i64 j) { return j * step; });
}

template <class T, int W> INLINE auto to_memory(Vec<T, W> x) {
  if constexpr (same_type<T, bool>) return cast<u8>(x).v;
  else return x.v;
}
template <class T> struct MemoryOf { typedef typename LaneOf<T>::type type; };
template <> struct MemoryOf<bool> { typedef u8 type; };

template <class T, int W> INLINE void store(T *p, All, Vec<T, W> x) {
  *(Unaligned<typename MemoryOf<T>::type, W> *)p = to_memory(x);
}
template <class T, int W> INLINE void store(T *p, First lanes, Vec<T, W> x) {
  auto v = to_memory(x);
  if constexpr (has_masks<T, W>) return store_bits<T, W>(p, mask_bits<W>(lanes), v);
  else if (lanes.count >= W) return store(p, All{}, x);
  else for (i64 j = 0; j < lanes.count; j++) ((typename MemoryOf<T>::type *)p)[j] = v[j];
}
/* Non-temporal (streaming) store, for results that are not read soon: it bypasses the cache, so that a line is not
 * fetched before it is overwritten (write-allocate). */
template <class T, int W, class L> INLINE void nt_store(T *p, L lanes, Vec<T, W> x) { store(p, lanes, x); }
#if defined(NB_X86) && defined(__AVX__)
template <class T, int W> INLINE void nt_store(T *p, All, Vec<T, W> x) {
  auto v = to_memory(x);
  /* The instruction needs an aligned address. */
  if (__builtin_expect((u64)p % sizeof(v), 0)) return store(p, All{}, x);
#ifdef __AVX512F__
  if constexpr (sizeof(v) == 64) return __builtin_ia32_movntps512((f32 *)p, (Raw<f32, 16>)v);
#endif
  if constexpr (sizeof(v) == 32) __builtin_ia32_movntps256((f32 *)p, (Raw<f32, 8>)v);
  else if constexpr (sizeof(v) == 16) __builtin_ia32_movntps((f32 *)p, (Raw<f32, 4>)v);
  else store(p, All{}, x);
}
#endif
template <class T, int W, class L> INLINE void nt_store_if(bool is_large, T *p, L lanes, Vec<T, W> x) {
  if (is_large) nt_store(p, lanes, x);
  else store(p, lanes, x);
}
/* Non-temporal only if one vector is a whole cache line: half lines, stored at different times, would be written to
 * memory twice. */
template <class T, int W, class L> INLINE void nt_store_lines_if(bool is_large, T *p, L lanes, Vec<T, W> x) {
  if (sizeof(typename MemoryOf<T>::type) * W == 64 && is_large) nt_store(p, lanes, x);
  else store(p, lanes, x);
}
/* Fence after non-temporal stores: other threads see them from here on. */
INLINE void nt_store_fence() {
#ifdef NB_X86
  __builtin_ia32_sfence();
#endif
}
/* Prefetch to L2: L1 has too few line-fill buffers. */
INLINE void prefetch_l2(const void *p) { __builtin_prefetch(p, 0, 2); }

/* Scatter: the offset of each lane is a function of the lane. */
template <class T, int W, class L, class F> INLINE void scatter(T *p, L lanes, Vec<T, W> x, F offset) {
  auto v = to_memory(x);
  Vec<bool, W> m = mask_of<W>(lanes);
  FOR_EACH_LANE(j) if (m.v[j]) ((typename MemoryOf<T>::type *)p)[offset(j)] = v[j];
}

/* In-register W x W transpose: swap the off-diagonal blocks, then do the same in each quarter (W = 4):
 *
 *     a0 a1 | a2 a3        a0 a1 | c0 c1        a0 b0 | c0 d0
 *     b0 b1 | b2 b3   ->   b0 b1 | d0 d1   ->   a1 b1 | c1 d1
 *     ------+------        ------+------        ------+------
 *     c0 c1 | c2 c3        a2 a3 | c2 c3        a2 b2 | c2 d2
 *     d0 d1 | d2 d3        b2 b3 | d2 d3        a3 b3 | c3 d3
 *
 * Each swap is two shuffles of a pair of rows: W * log2(W) shuffles in all, and no memory access. */
template <int W, int half, class T> INLINE void transpose_in_registers(Raw<T, W> *row) {
#ifdef __clang__
  for (int i = 0; i < W; i++)
    for (int j = 0; j < i; j++) { T held = row[i][j]; row[i][j] = row[j][i]; row[j][i] = held; }
#else
#pragma GCC unroll 16
  for (int i = 0; i < W; i++) {
    if (i & half) continue;
    Bits<T, W> upper, lower;
    FOR_EACH_LANE(j) upper[j] = j & half ? W + j - half : j, lower[j] = j & half ? W + j : j + half;
    const Raw<T, W> a = row[i], b = row[i + half];
    row[i] = __builtin_shuffle(a, b, upper);
    row[i + half] = __builtin_shuffle(a, b, lower);
  }
  if constexpr (half > 1) transpose_in_registers<W, half / 2, T>(row);
#endif
}
template <int W> INLINE int count_of(All) { return W; }
template <int W> INLINE int count_of(First some) { return some.count < W ? some.count : W; }
/* Load a W x W tile whose lanes are `step` apart in memory, and store it transposed, in rows that are `row_pitch` apart;
 * store_transposed() does the reverse. */
template <class M, int W, class L, class R> INLINE void load_transposed(M *to, i64 row_pitch, const M *p, i64 step, L lanes, R rows) {
  Raw<M, W> row[W];
#pragma GCC unroll 16
  FOR_EACH_LANE(j) row[j] = j < count_of<W>(lanes) ? load<M, W>(p + j * step, rows).v : Raw<M, W>{};
  transpose_in_registers<W, W / 2, M>(row);
#pragma GCC unroll 16
  FOR_EACH_LANE(j) store(to + j * row_pitch, All{}, Vec<M, W>(row[j]));
}
template <class M, int W, class L, class R> INLINE void store_transposed(bool is_large, const M *from, i64 row_pitch, M *p, i64 step, L lanes, R rows) {
  Raw<M, W> row[W];
#pragma GCC unroll 16
  FOR_EACH_LANE(j) row[j] = load<M, W>(from + j * row_pitch, All{}).v;
  transpose_in_registers<W, W / 2, M>(row);
#pragma GCC unroll 16
  FOR_EACH_LANE(j) if (j < count_of<W>(lanes)) nt_store_if(is_large, p + j * step, rows, Vec<M, W>(row[j]));
}
template <class M, int W, class L, class R> NOINLINE void load_transposed_outlined(M *to, i64 row_pitch, const M *p, i64 step, L lanes, R rows) {
  load_transposed<M, W>(to, row_pitch, p, step, lanes, rows);
}
template <class M, int W, class L, class R> NOINLINE void store_transposed_outlined(bool is_large, const M *from, i64 row_pitch, M *p, i64 step, L lanes, R rows) {
  store_transposed<M, W>(is_large, from, row_pitch, p, step, lanes, rows);
}
template <class T> constexpr bool is_worth_outlining = sizeof(T) >= 4; /* narrow elements: the inlined code is short */
template <class T, int W, class L, class R> INLINE void load_tile_transposed(T *tile, const T *p, i64 step, L lanes, R rows) {
  typedef typename MemoryOf<T>::type M;
  if constexpr (is_worth_outlining<T>) load_transposed_outlined<M, W>((M *)tile, W, (const M *)p, step, lanes, rows);
  else load_transposed<M, W>((M *)tile, W, (const M *)p, step, lanes, rows);
}
template <class T, int W, class L, class R> INLINE void store_tile_transposed(bool is_large, T *tile, T *p, i64 step, L lanes, R rows) {
  typedef typename MemoryOf<T>::type M;
  if constexpr (is_worth_outlining<T>) store_transposed_outlined<M, W>(is_large, (const M *)tile, W, (M *)p, step, lanes, rows);
  else store_transposed<M, W>(is_large, (const M *)tile, W, (M *)p, step, lanes, rows);
}
/* Pack strided rows into a contiguous panel, tile by tile; unpack_panel() does the reverse. */
template <class T, int W> INLINE void pack_panel(T *panel, i64 row_pitch, const T *p, i64 step, i64 length, i64 rows) {
  typedef typename MemoryOf<T>::type M;
  for (i64 at = 0; at < length; at += W)
    for (i64 row = 0; row < rows; row += W) {
      M *to = (M *)panel + row * row_pitch + at;
      const M *from = (const M *)p + row + at * step;
      if (at + W <= length && row + W <= rows) load_transposed_outlined<M, W>(to, row_pitch, from, step, All{}, All{});
      else load_transposed_outlined<M, W>(to, row_pitch, from, step, First{length - at}, First{rows - row});
    }
}
template <class T, int W> INLINE void unpack_panel(bool is_large, const T *panel, i64 row_pitch, T *p, i64 step, i64 length, i64 rows) {
  typedef typename MemoryOf<T>::type M;
  for (i64 at = 0; at < length; at += W)
    for (i64 row = 0; row < rows; row += W) {
      const M *from = (const M *)panel + row * row_pitch + at;
      M *to = (M *)p + row + at * step;
      if (at + W <= length && row + W <= rows) store_transposed_outlined<M, W>(is_large, from, row_pitch, to, step, All{}, All{});
      else store_transposed_outlined<M, W>(is_large, from, row_pitch, to, step, First{length - at}, First{rows - row});
    }
}

/* Vector whose lanes are given by a function of the lane. */
template <class T, int W, class F> INLINE Vec<T, W> for_each_lane(F value) {
  Vec<T, W> x;
  FOR_EACH_LANE(j) x.v[j] = value(j);
  return x;
}
/* A value that is opaque to GCC. It would fold 0.0 / 0.0 of known numbers to a NaN of the other sign than the instruction's. */
template <class T, int W> INLINE Vec<T, W> opaque(Vec<T, W> x) {
  asm("" : "+m"(x.v));
  return x;
}

/* first, first + step, first + 2 * step, ... */
template <class T, int W> INLINE Vec<T, W> sequence(i64 first, i64 step) {
  Raw<i64, W> count;
  FOR_EACH_LANE(j) count[j] = j;
  if constexpr (sizeof(T) == 8) return cast<T>(Vec<i64, W>(count * step + first));
  else {
    Raw<T, W> narrow;
    FOR_EACH_LANE(j) narrow[j] = (T)j;
    return narrow * (T)step + (T)first;
  }
}

/* Bounds check of indices that were loaded from memory; `wraps`: negative ones count from the end. */
template <class L, int W> INLINE Vec<i64, W> checked_index(Context *context, i64 site, i64 size, bool wraps, L lanes, Vec<i64, W> index, Vec<bool, W> *in_range) {
  Vec<bool, W> m = mask_of<W>(lanes);
  Vec<i64, W> wrapped = index;
  if (wraps) wrapped = where(index < Vec<i64, W>(0), index + Vec<i64, W>(size), index);
  *in_range = m & (wrapped >= Vec<i64, W>(0)) & (wrapped < Vec<i64, W>(size));
  if (__builtin_expect(some(m & !*in_range), 0)) {
    FOR_EACH_LANE(j) if (m[j] && !(*in_range)[j]) {
      __atomic_store_n(&context->site, site, __ATOMIC_RELAXED);
      __atomic_store_n(&context->index, index[j], __ATOMIC_RELAXED);
      __atomic_store_n(&context->size, size, __ATOMIC_RELAXED);
    }
  }
  return wrapped;
}

/* Divisors of integers: a 0 in an active lane is reported as ZeroDivisionError. */
template <class T, int W, class L> INLINE Vec<T, W> checked_divisor(Context *context, i64 site, L lanes, Vec<T, W> b) {
  if (__builtin_expect(some(mask_of<W>(lanes) & (b == Vec<T, W>((T)0))), 0)) __atomic_store_n(&context->site, site, __ATOMIC_RELAXED);
  return b;
}
INLINE i64 checked_scalar_index(Context *context, i64 site, i64 size, bool wraps, i64 index, bool *in_range) {
  Vec<bool, 1> ok;
  i64 wrapped = checked_index(context, site, size, wraps, All{}, Vec<i64, 1>(index), &ok)[0];
  *in_range = ok[0];
  return *in_range ? wrapped : 0;
}

/* -------------------------------------------------------- integer arithmetic */

constexpr INLINE i64 floor_div(i64 a, i64 b) {
  if (b == 0) return 0;
  if (b == -1) return -(u64)a;
  i64 q = a / b;
  return q - (q * b != a && (a < 0) != (b < 0));
}
INLINE i64 trunc_div(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)-(u64)a : a / b; }
constexpr INLINE i64 mod(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a - floor_div(a, b) * b; }
constexpr INLINE i64 min_of(i64 a, i64 b) { return a < b ? a : b; }
constexpr INLINE i64 max_of(i64 a, i64 b) { return a > b ? a : b; }
constexpr INLINE i64 abs_of(i64 a) { return a < 0 ? -(u64)a : a; }
INLINE i64 int_pow(i64 base, i64 exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  u64 result = 1, factor = base;
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return result;
}

/* ------------------------------------------------- single instructions */

#define NB_LANEWISE(name, single, twice)                                                                         \
  template <int W> INLINE Vec<f32, W> name(Vec<f32, W> x) { FOR_EACH_LANE(j) x.v[j] = single(x.v[j]); return x; }              \
  template <int W> INLINE Vec<f64, W> name(Vec<f64, W> x) { FOR_EACH_LANE(j) x.v[j] = twice(x.v[j]); return x; }
#define NB_LANEWISE2(name, single, twice)                                                                        \
  template <int W> INLINE Vec<f32, W> name(Vec<f32, W> x, Vec<f32, W> y) { FOR_EACH_LANE(j) x.v[j] = single(x.v[j], y.v[j]); return x; } \
  template <int W> INLINE Vec<f64, W> name(Vec<f64, W> x, Vec<f64, W> y) { FOR_EACH_LANE(j) x.v[j] = twice(x.v[j], y.v[j]); return x; }

template <class T, int W> INLINE Vec<T, W> fma(Vec<T, W> a, Vec<T, W> b, Vec<T, W> c) {
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (sizeof(a) == 64 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_vfmaddps512_mask(a.v, b.v, c.v, (short)-1, 4);
  else if constexpr (sizeof(a) == 64) return (Raw<T, W>)__builtin_ia32_vfmaddpd512_mask(a.v, b.v, c.v, (char)-1, 4);
  else
#endif
#if defined(NB_X86) && defined(__FMA__)
  if constexpr (sizeof(a) == 32 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_vfmaddps256(a.v, b.v, c.v);
  else if constexpr (sizeof(a) == 32) return (Raw<T, W>)__builtin_ia32_vfmaddpd256(a.v, b.v, c.v);
  else if constexpr (sizeof(a) == 16 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_vfmaddps(a.v, b.v, c.v);
  else if constexpr (sizeof(a) == 16) return (Raw<T, W>)__builtin_ia32_vfmaddpd(a.v, b.v, c.v);
  else
#endif
  { FOR_EACH_LANE(j) if constexpr (sizeof(T) == 4) a.v[j] = __builtin_fmaf(a.v[j], b.v[j], c.v[j]); else a.v[j] = __builtin_fma(a.v[j], b.v[j], c.v[j]); return a; }
}
template <class T, int W> INLINE Vec<T, W> fma(Vec<T, W> a, Vec<T, W> b, T c) { return fma(a, b, Vec<T, W>(c)); }
template <class T, int W> INLINE Vec<T, W> fma(Vec<T, W> a, T b, Vec<T, W> c) { return fma(a, Vec<T, W>(b), c); }
/* c0 * x^n + c1 * x^(n-1) + ... */
template <class T, int W> INLINE Vec<T, W> polynomial(Vec<T, W>, Vec<T, W> sum) { return sum; }
template <class T, int W, class... Rest> INLINE Vec<T, W> polynomial(Vec<T, W> x, Vec<T, W> sum, T next, Rest... rest) {
  return polynomial(x, fma(sum, x, next), rest...);
}

template <class T, int W> INLINE Vec<T, W> sqrt(Vec<T, W> x) {
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (sizeof(x) == 64 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_sqrtps512_mask(x.v, x.v, (short)-1, 4);
  else if constexpr (sizeof(x) == 64) return (Raw<T, W>)__builtin_ia32_sqrtpd512_mask(x.v, x.v, (char)-1, 4);
  else
#endif
#if defined(NB_X86) && defined(__AVX__)
  if constexpr (sizeof(x) == 32 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_sqrtps256(x.v);
  else if constexpr (sizeof(x) == 32) return (Raw<T, W>)__builtin_ia32_sqrtpd256(x.v);
  else
#endif
  { FOR_EACH_LANE(j) if constexpr (sizeof(T) == 4) x.v[j] = __builtin_sqrtf(x.v[j]); else x.v[j] = __builtin_sqrt(x.v[j]); return x; }
}

/* mode: 0 nearest even, 1 down, 2 up, 3 towards zero (the instruction's own numbers) */
template <int mode, class T, int W> INLINE Vec<T, W> to_integer(Vec<T, W> x) {
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (sizeof(x) == 64 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_rndscaleps_mask(x.v, mode, x.v, (short)-1, 4);
  else if constexpr (sizeof(x) == 64) return (Raw<T, W>)__builtin_ia32_rndscalepd_mask(x.v, mode, x.v, (char)-1, 4);
  else
#endif
#if defined(NB_X86) && defined(__AVX__)
  if constexpr (sizeof(x) == 32 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_roundps256(x.v, mode);
  else if constexpr (sizeof(x) == 32) return (Raw<T, W>)__builtin_ia32_roundpd256(x.v, mode);
  else
#endif
  {
    FOR_EACH_LANE(j) {
      if constexpr (mode == 0) x.v[j] = sizeof(T) == 4 ? __builtin_rintf(x.v[j]) : __builtin_rint(x.v[j]);
      else if constexpr (mode == 1) x.v[j] = sizeof(T) == 4 ? __builtin_floorf(x.v[j]) : __builtin_floor(x.v[j]);
      else if constexpr (mode == 2) x.v[j] = sizeof(T) == 4 ? __builtin_ceilf(x.v[j]) : __builtin_ceil(x.v[j]);
      else x.v[j] = sizeof(T) == 4 ? __builtin_truncf(x.v[j]) : __builtin_trunc(x.v[j]);
    }
    return x;
  }
}
template <class T, int W> INLINE Vec<T, W> round(Vec<T, W> x) { return to_integer<0>(x); }
template <class T, int W> INLINE Vec<T, W> floor(Vec<T, W> x) { return to_integer<1>(x); }
template <class T, int W> INLINE Vec<T, W> ceil(Vec<T, W> x) { return to_integer<2>(x); }
template <class T, int W> INLINE Vec<T, W> trunc(Vec<T, W> x) { return to_integer<3>(x); }

/* ------------------------------------------------------------- simple values */

template <class T, int W> INLINE Vec<bool, W> isnan(Vec<T, W> x) {
  if constexpr (is_float<T>) return x != x;
  else return Vec<bool, W>(false);
}
template <class T> struct Sign { static constexpr T bit = (T)((T)1 << (8 * sizeof(T) - 1)), rest = (T)~bit; };
template <class T, int W> INLINE Vec<T, W> abs(Vec<T, W> x) {
  typedef typename IntOf<sizeof(T)>::type I;
  if constexpr (is_float<T>) return (Raw<T, W>)((Bits<T, W>)x.v & (I)Sign<typename IntOf<sizeof(T)>::type>::rest);
  else if constexpr ((T)-1 > (T)0) return x;
  else return where(x < Vec<T, W>((T)0), -x, x);
}
template <class T, int W> INLINE Vec<T, W> copysign(Vec<T, W> x, Vec<T, W> y) {
  typedef typename IntOf<sizeof(T)>::type I;
  return (Raw<T, W>)(((Bits<T, W>)x.v & Sign<I>::rest) | ((Bits<T, W>)y.v & Sign<I>::bit));
}
template <class T, int W> INLINE Vec<bool, W> signbit(Vec<T, W> x) {
  if constexpr (is_float<T>) return Vec<bool, W>((Bits<T, W>)((Bits<T, W>)x.v < Bits<T, W>{}));
  else return x < Vec<T, W>((T)0);
}
template <class T, int W> INLINE Vec<bool, W> isinf(Vec<T, W> x) {
  if constexpr (is_float<T>) return abs(x) == Vec<T, W>((T)__builtin_inf());
  else return Vec<bool, W>(false);
}
template <class T, int W> INLINE Vec<T, W> sign(Vec<T, W> x) {
  Vec<T, W> zero((T)0), one((T)1);
  return where(zero < x, one, zero) - where(x < zero, one, zero);
}
/* The larger and the smaller of two, the second where either is a nan: an instruction of their own on x86. */
template <class T, int W> INLINE Vec<T, W> larger(Vec<T, W> a, Vec<T, W> b) {
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (is_float<T> && sizeof(a) == 64 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_maxps512_mask(a.v, b.v, a.v, (short)-1, 4);
  else if constexpr (is_float<T> && sizeof(a) == 64) return (Raw<T, W>)__builtin_ia32_maxpd512_mask(a.v, b.v, a.v, (char)-1, 4);
  else
#endif
#if defined(NB_X86) && defined(__AVX__)
  if constexpr (is_float<T> && sizeof(a) == 32 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_maxps256(a.v, b.v);
  else if constexpr (is_float<T> && sizeof(a) == 32) return (Raw<T, W>)__builtin_ia32_maxpd256(a.v, b.v);
  else
#endif
  return where(a > b, a, b);
}
template <class T, int W> INLINE Vec<T, W> smaller(Vec<T, W> a, Vec<T, W> b) {
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (is_float<T> && sizeof(a) == 64 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_minps512_mask(a.v, b.v, a.v, (short)-1, 4);
  else if constexpr (is_float<T> && sizeof(a) == 64) return (Raw<T, W>)__builtin_ia32_minpd512_mask(a.v, b.v, a.v, (char)-1, 4);
  else
#endif
#if defined(NB_X86) && defined(__AVX__)
  if constexpr (is_float<T> && sizeof(a) == 32 && sizeof(T) == 4) return (Raw<T, W>)__builtin_ia32_minps256(a.v, b.v);
  else if constexpr (is_float<T> && sizeof(a) == 32) return (Raw<T, W>)__builtin_ia32_minpd256(a.v, b.v);
  else
#endif
  return where(a < b, a, b);
}
template <class T, int W> INLINE Vec<T, W> maximum(Vec<T, W> a, Vec<T, W> b) { return where(isnan(a), a, larger(a, b)); }
template <class T, int W> INLINE Vec<T, W> minimum(Vec<T, W> a, Vec<T, W> b) { return where(isnan(a), a, smaller(a, b)); }
template <class T, int W> INLINE Vec<T, W> fmax(Vec<T, W> a, Vec<T, W> b) { return where((a >= b) | isnan(b), a, b); }
template <class T, int W> INLINE Vec<T, W> fmin(Vec<T, W> a, Vec<T, W> b) { return where((a <= b) | isnan(b), a, b); }
template <int W> INLINE Vec<bool, W> maximum(Vec<bool, W> a, Vec<bool, W> b) { return a | b; }
template <int W> INLINE Vec<bool, W> minimum(Vec<bool, W> a, Vec<bool, W> b) { return a & b; }
template <class T, int W> INLINE Vec<T, W> reciprocal(Vec<T, W> x) { return Vec<T, W>((T)1) / x; }
template <class T, int W> INLINE Vec<T, W> rsqrt(Vec<T, W> x) { return Vec<T, W>((T)1) / sqrt(x); }

NB_LANEWISE2(libm_fmod, __builtin_fmodf, __builtin_fmod)
/* Exact where the quotient is an exact integer: it is then at most one too large, and what is left is a float. */
template <class T, int W> INLINE Vec<T, W> float_fmod(Vec<T, W> a, Vec<T, W> b) {
  Vec<T, W> count = trunc(a / b), left = fma(-count, b, a), zero((T)0);
  Vec<bool, W> fits = (abs(count) < Vec<T, W>((T)(1 / (sizeof(T) == 4 ? 0x1p-22 : 0x1p-51)))) & !isnan(left);
  if (__builtin_expect(!every(fits), 0)) return libm_fmod(a, b);
  Vec<bool, W> over = (left != zero) & ((left < zero) != (a < zero));
  return copysign(where(over, left + copysign(b, a), left), a);
}
/* Quotients of whole numbers as those of floats, rounded as to_integer() does: exact where a dividend has two bits less than a
 * float's fraction, as rounding never brings such a quotient to the next whole number. By 0 it is 0. */
template <int mode, class T, int W> COLD Raw<T, W> long_quotient(Raw<T, W> a, Raw<T, W> b) {
  FOR_EACH_LANE(j) a[j] = mode == 1 ? floor_div((i64)a[j], (i64)b[j]) : trunc_div((i64)a[j], (i64)b[j]);
  return a;
}
template <class T, int W, class F> INLINE Vec<T, W> by_halves(Vec<T, W> a, Vec<T, W> b, F function) {
  Raw<T, W / 2> x[2], y[2];
  __builtin_memcpy(x, &a, sizeof(x));
  __builtin_memcpy(y, &b, sizeof(y));
  for (int half = 0; half < 2; half++) x[half] = function(Vec<T, W / 2>(x[half]), Vec<T, W / 2>(y[half])).v;
  __builtin_memcpy(&a, x, sizeof(x));
  return a;
}
template <int mode, class T, int W> INLINE Vec<T, W> whole_quotient(Vec<T, W> a, Vec<T, W> b) {
  const Vec<T, W> zero((T)0);
  if constexpr (sizeof(T) <= 2) return where(b == zero, zero, cast<T>(to_integer<mode>(cast<f32>(a) / cast<f32>(b))));
  else if constexpr (same_type<T, i32> && W * 8 > NB_BYTES) {
    return by_halves(a, b, [](auto x, auto y) STEP { return whole_quotient<mode>(x, y); });
  } else if constexpr (same_type<T, i32>) {
    Vec<T, W> quotient = cast<T>(to_integer<mode>(cast<f64>(a) / cast<f64>(b)));
    return where(b == zero, zero, where(b == Vec<T, W>((T)-1), -a, quotient)); /* the least number by -1 is itself */
  } else if constexpr (same_type<T, i64>) {
    /* Added to 1.5 * 2^52, numbers of 51 bits are the fraction of a float64. */
    const Vec<i64, W> bias((i64)0x4338000000000000);
    const Vec<f64, W> shift(0x1.8p52);
    Raw<u64, W> high = (((Raw<u64, W>)a.v + (1ul << 50)) | ((Raw<u64, W>)b.v + (1ul << 50))) >> 51;
    if (__builtin_expect(some(Vec<bool, W>((Raw<i64, W>)(high != 0))), 0)) return long_quotient<mode, T, W>(a.v, b.v);
    Vec<f64, W> x = bit_cast<f64>(a + bias) - shift, y = bit_cast<f64>(b + bias) - shift;
    return where(b == zero, zero, bit_cast<i64>(to_integer<mode>(x / y) + shift) - bias);
  } else return long_quotient<mode, T, W>(a.v, b.v);
}
template <int mode, class T, int W> INLINE Vec<T, W> whole_rest(Vec<T, W> a, Vec<T, W> b) {
  return where(b == Vec<T, W>((T)0), b, a - whole_quotient<mode>(a, b) * b);
}
template <class T, int W> INLINE Vec<T, W> fmod(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (is_float<T>) return float_fmod(a, b);
  else return whole_rest<3>(a, b);
}
template <class T, int W> INLINE Vec<T, W> remainder(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (is_float<T>) {
    Vec<T, W> zero((T)0), left = float_fmod(a, b);
    return where((left != zero) & ((b < zero) != (left < zero)), left + b, left);
  } else return whole_rest<1>(a, b);
}
template <class T, int W> INLINE Vec<T, W> trunc_div(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (is_float<T>) return trunc(a / b);
  else return whole_quotient<3>(a, b);
}
/* As Python's // and torch's: through the remainder, so that it agrees with it. */
template <class T, int W> COLD Raw<T, W> floor_div_slow_path(Raw<T, W> first, Raw<T, W> second) {
  Vec<T, W> a(first), b(second), zero((T)0), left = float_fmod(a, b), quotient = (a - left) / b;
  quotient = where((left != zero) & ((b < zero) != (left < zero)), quotient - Vec<T, W>((T)1), quotient);
  Vec<T, W> down = floor(quotient);
  down = where(quotient - down > Vec<T, W>((T)0.5), down + Vec<T, W>((T)1), down);
  down = where(quotient == zero, copysign(zero, a / b), down);
  return where(b == zero, a / b, down).v;
}
/* Of a quotient that is an exact integer, one is too large only where rounding brought it up there: the remainder shows whether it did. */
template <class T, int W> INLINE Vec<T, W> floor_div(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (is_float<T>) {
    Vec<T, W> zero((T)0), down = floor(a / b), left = fma(-down, b, a);
    Vec<bool, W> over = left * copysign(Vec<T, W>((T)1), b) < zero;
    Vec<bool, W> fits = (abs(down) < Vec<T, W>((T)(sizeof(T) == 4 ? 0x1p22 : 0x1p51))) & !isnan(left);
    if (__builtin_expect(every(fits), 1)) return where(over, down - Vec<T, W>((T)1), down);
    return floor_div_slow_path<T, W>(a.v, b.v);
  } else return whole_quotient<1>(a, b);
}
template <class T, int W> INLINE Vec<T, W> shift_left(Vec<T, W> a, Vec<T, W> b) {
  FOR_EACH_LANE(j) a.v[j] = (u64)b.v[j] < 8 * sizeof(T) ? (T)((u64)a.v[j] << b.v[j]) : (T)0;
  return a;
}
template <class T, int W> INLINE Vec<T, W> shift_right(Vec<T, W> a, Vec<T, W> b) {
  FOR_EACH_LANE(j) a.v[j] = a.v[j] >> ((u64)b.v[j] < 8 * sizeof(T) ? (i64)b.v[j] : (i64)(8 * sizeof(T) - 1));
  return a;
}

template <int W> INLINE Vec<i64, W> philox(Vec<i64, W> seed, Vec<i64, W> counter) { /* words of 32 bits, each in 64 */
  typedef Raw<u64, W> Words;
  const u64 word = 0xffffffff;
  Words k0 = (Words)seed.v & word, k1 = (Words)seed.v >> 32;
  Words c0 = (Words)counter.v & word, c1 = (Words)counter.v >> 32, c2 = {}, c3 = {};
  for (int round = 0; round < 10; round++) {
    const Words odd = c2 * (u64)0xCD9E8D57, even = c0 * (u64)0xD2511F53;
    c0 = (odd >> 32) ^ c1 ^ k0, c1 = odd & word, c2 = (even >> 32) ^ c3 ^ k1, c3 = even & word;
    k0 = (k0 + 0x9E3779B9) & word, k1 = (k1 + 0xBB67AE85) & word;
  }
  return (Raw<i64, W>)(c0 | c1 << 32);
}

/* --------------------------------------------------------- float32 functions */

template <int W> INLINE Vec<f32, W> power_of_two(Raw<i32, W> n) { return (Raw<f32, W>)((n + 127) << 23); }
template <int W> INLINE Vec<f64, W> power_of_two(Raw<i64, W> n) { return (Raw<f64, W>)((n + 1023) << 52); }

/* x = n * ln2 + rest: returns the rest. */
/* 12582912 is 1.5 * 2^23: floats of this size are whole numbers, so that adding it rounds x / ln2 to the nearest
 * one, which is then in the low bits. ln2 is subtracted in two parts, which together have more digits than one
 * float32. */
template <int W> INLINE Vec<f32, W> reduce_ln2(Vec<f32, W> x, Raw<i32, W> *n) {
  Vec<f32, W> shifted = fma(x, 1.44269504f, Vec<f32, W>(12582912.f)), count = shifted - Vec<f32, W>(12582912.f);
  *n = (Raw<i32, W>)shifted.v - 0x4b400000;
  return fma(count, -1.42860677e-06f, fma(count, -0.693145752f, x));
}
template <int W> INLINE Vec<f32, W> exp_tail(Vec<f32, W> r) { /* exp(r) - 1 - r, over r^2 */
  return polynomial(r, Vec<f32, W>(0.00139385136f), 0.00836881343f, 0.0416664258f, 0.166665196f, 0.5f);
}
template <int W> COLD Raw<f32, W> exp_slow_path(Raw<f32, W> given) {
  Vec<f32, W> x0(given), low(-104.f), high(89.f), x = where(x0 < low, low, where(x0 > high, high, x0));
  Raw<i32, W> n, half;
  Vec<f32, W> r = reduce_ln2(x, &n), y = fma(r * r, exp_tail(r), r) + Vec<f32, W>(1.f);
  half = n >> 1; /* in two steps: 2^n itself may overflow or be subnormal */
  return (y * power_of_two<W>(half) * power_of_two<W>(n - half)).v;
}
template <class T, int W> INLINE bool all_within(Vec<T, W> x, T limit) { return __builtin_expect(every(abs(x) <= Vec<T, W>(limit)), 1); }
template <int W> INLINE Vec<f32, W> exp(Vec<f32, W> x) {
  Raw<i32, W> n;
  Vec<f32, W> r = reduce_ln2(x, &n), y = fma(r * r, exp_tail(r), r) + Vec<f32, W>(1.f);
  if (all_within(x, 87.f)) return (Raw<f32, W>)((Raw<i32, W>)y.v + (n << 23)); /* no result overflows, none is subnormal */
  return exp_slow_path<W>(x.v);
}
template <int W> INLINE Vec<f32, W> exp2(Vec<f32, W> x0) {
  Vec<f32, W> low(-151.f), high(129.f), x = where(x0 < low, low, where(x0 > high, high, x0));
  Vec<f32, W> shifted = x + Vec<f32, W>(12582912.f), r = x - (shifted - Vec<f32, W>(12582912.f));
  Raw<i32, W> n = (Raw<i32, W>)shifted.v - 0x4b400000, half = n >> 1;
  Vec<f32, W> p = polynomial(r, Vec<f32, W>(0.00015457983f), 0.00133911474f, 0.0096180737f, 0.0555035919f, 0.240226507f, 0.693147182f);
  return fma(p, r, 1.f) * power_of_two<W>(half) * power_of_two<W>(n - half);
}
template <int W> INLINE Vec<f32, W> expm1(Vec<f32, W> x0) {
  Vec<f32, W> low(-20.f), high(89.f), x = where(x0 < low, low, where(x0 > high, high, x0));
  Raw<i32, W> n;
  Vec<f32, W> r = reduce_ln2(x, &n), y = fma(r * r, exp_tail(r), r), scale = power_of_two<W>(n - 1);
  y = fma(scale, y, scale - Vec<f32, W>(0.5f)); /* half of the result: 2^n may overflow */
  return where(abs(x0) < Vec<f32, W>(1e-8f), x0, y + y);
}
template <int W> COLD Raw<f32, W> sigmoid_slow_path(Raw<f32, W> x) {
  Vec<f32, W> one(1.f);
  return (one / (one + Vec<f32, W>(exp_slow_path<W>(-x)))).v;
}
template <int W> INLINE Vec<f32, W> sigmoid(Vec<f32, W> x) {
  Raw<i32, W> n;
  Vec<f32, W> r = reduce_ln2(-x, &n), y = fma(r * r, exp_tail(r), r), scale = power_of_two<W>(n), one(1.f);
  /* 1 + exp(-x) = 1 + scale * (1 + y), the largest term added last: one rounding counts */
  Vec<bool, W> large = scale > one;
  if (all_within(x, 87.f)) return one / (fma(y, scale, where(large, one, scale)) + where(large, scale, one));
  return sigmoid_slow_path<W>(x.v);
}
template <int W> INLINE Vec<f32, W> tanh(Vec<f32, W> x) {
  Vec<f32, W> a = abs(x), s = x * x, one(1.f);
  Vec<f32, W> p = polynomial(s, Vec<f32, W>(-0.00571549917f), 0.0206491034f, -0.0537430048f, 0.133314848f, -0.333332837f);
  /* 1 - 2 / (exp(2x) + 1) cancels near 0, where a polynomial is used; beyond 10 the result is 1 in float32. */
  Vec<f32, W> small = copysign(fma(p * s, x, x), x), capped = where(a > Vec<f32, W>(10.f), Vec<f32, W>(10.f), a);
  Raw<i32, W> n;
  Vec<f32, W> r = reduce_ln2(capped + capped, &n), e = (fma(r * r, exp_tail(r), r) + one) * power_of_two<W>(n);
  return where(a < Vec<f32, W>(0.625f), small, copysign(one - Vec<f32, W>(2.f) / (e + one), x));
}
template <int W> INLINE Vec<f32, W> erf(Vec<f32, W> x) {
  Vec<f32, W> a = abs(x), s = x * x, one(1.f), t = where(a > Vec<f32, W>(4.f), Vec<f32, W>(4.f), a);
  Vec<f32, W> p = polynomial(s, Vec<f32, W>(-0.000605868641f), 0.00500526838f, -0.0267739333f, 0.112819888f, -0.376125067f, 0.128379151f);
  Vec<f32, W> q = polynomial(t, Vec<f32, W>(-5.29373983e-06f), 4.9907143e-05f, 2.75776201e-05f, -0.00286945212f, 0.0225760695f,
                             -0.105169863f, -0.635672987f, -1.12854147f);
  Raw<i32, W> n;
  Vec<f32, W> r = reduce_ln2(q * t, &n), e = (fma(r * r, exp_tail(r), r) + one) * power_of_two<W>(n);
  return where(a < Vec<f32, W>(0.9f), fma(p, x, x), copysign(one - e, x));
}

/* 1 / x of a normal number, to 22 bits or more; the caller refines it. */
template <int W> INLINE Vec<f32, W> approximate_reciprocal(Vec<f32, W> x) {
  Vec<f32, W> guess;
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (W == 16) guess = (Raw<f32, W>)__builtin_ia32_rcp14ps512_mask(x.v, x.v, (short)-1);
  else
#endif
#if defined(NB_X86) && defined(__AVX__)
  if constexpr (W == 8) guess = (Raw<f32, W>)__builtin_ia32_rcpps256(x.v);
  else
#endif
  return Vec<f32, W>(1.f) / x;
  return fma(fma(-x, guess, Vec<f32, W>(1.f)), guess, guess);
}
/* x = m * 2^e with m between sqrt(1/2) and sqrt(2); returns m - 1. */
/* 0x3f3504f3 are the bits of sqrt(1/2). With them subtracted, the exponent's field counts from sqrt(1/2) to
 * sqrt(2) and not from 1 to 2, so that m - 1 is small near x = 1. A subnormal number is scaled first: its
 * exponent's field is 0. */
template <int W> INLINE Vec<f32, W> split_exponent(Vec<f32, W> x, Vec<f32, W> *e) {
  Vec<bool, W> tiny = x < Vec<f32, W>(0x1p-126f);
  Raw<i32, W> bits = (Raw<i32, W>)where(tiny, x * Vec<f32, W>(0x1p23f), x).v - 0x3f3504f3;
  Raw<i32, W> n = bits >> 23;
  *e = cast<f32>(Vec<i32, W>(n)) - where(tiny, Vec<f32, W>(23.f), Vec<f32, W>(0.f));
  return Vec<f32, W>((Raw<f32, W>)((bits & 0x7fffff) + 0x3f3504f3)) - Vec<f32, W>(1.f);
}
/* log(1 + f) - f, small against f */
template <int W> INLINE Vec<f32, W> log_tail(Vec<f32, W> f) {
  Vec<f32, W> p = polynomial(f, Vec<f32, W>(-0.0763601065f), 0.127620175f, -0.131596401f, 0.142015964f, -0.166234091f, 0.200012416f,
                             -0.250008196f, 0.333333313f);
  return f * f * fma(p, f, -0.5f);
}
template <class T, int W> INLINE Vec<T, W> log_limits(Vec<T, W> x, Vec<T, W> y, T undefined = (T)__builtin_nan("")) {
  Vec<T, W> infinity((T)__builtin_inf()), zero((T)0);
  y = where(x == zero, -infinity, where(x == infinity, x, y));
  return where(x < zero, Vec<T, W>(undefined), where(isnan(x), x, y));
}
/* What ATen's vector functions (SLEEF's) give outside of their domain: copysign and signbit read the sign. */
template <class T> constexpr T negative_nan = -(T)__builtin_nan("");
template <int W> INLINE Vec<f32, W> log(Vec<f32, W> x) {
  Vec<f32, W> e, f = split_exponent(x, &e);
  return log_limits(x, fma(e, 0.693145752f, f + fma(e, 1.42860677e-06f, log_tail(f))));
}
template <int W> INLINE Vec<f32, W> log1p(Vec<f32, W> x) {
  /* 1 + x loses digits of a small x: log(1 + x) = log(u) + log(1 + lost / u), of which the second is about lost /
   * u. */
  Vec<f32, W> one(1.f), u = one + x, lost = x - (u - one), e, f = split_exponent(u, &e);
  lost = where(x > Vec<f32, W>(1e8f), Vec<f32, W>(0.f), lost / u);
  Vec<f32, W> y = fma(e, 0.693145752f, f + (lost + fma(e, 1.42860677e-06f, log_tail(f))));
  return where(abs(x) < Vec<f32, W>(1e-7f), x, log_limits(u, y, negative_nan<f32>));
}

/* sin and cos: x = n * pi/2 + r. Beyond 1e4 the C library is called, which reduces by pi to a thousand bits. */
template <int W> INLINE Vec<f32, W> split_quarters(Vec<f32, W> x, Raw<i32, W> *n) {
  /* As in reduce_ln2. Of n only the two lowest bits are used, so that the bits of 12582912 need not be
   * subtracted. pi/2 has three parts: x - n * pi/2 cancels most digits of the first. */
  Vec<f32, W> shifted = fma(x, 0.636619772f, Vec<f32, W>(12582912.f)), count = shifted - Vec<f32, W>(12582912.f);
  *n = (Raw<i32, W>)shifted.v;
  Vec<f32, W> r = fma(count, -1.57079637e+00f, x);
  return fma(count, 1.71512489e-15f, fma(count, 4.37113883e-08f, r));
}
template <int W> INLINE Vec<f32, W> sin_reduced(Vec<f32, W> r) {
  Vec<f32, W> s = r * r, p = polynomial(s, Vec<f32, W>(2.83754162e-06f), -0.000198535126f, 0.00833338033f, -0.166666672f);
  return fma(p * s, r, r);
}
template <int W> INLINE Vec<f32, W> cos_reduced(Vec<f32, W> r) {
  Vec<f32, W> s = r * r, p = polynomial(s, Vec<f32, W>(-2.89776466e-07f), 2.48229862e-05f, -0.00138889824f, 0.0416666679f);
  return fma(s * s, p, fma(s, -0.5f, Vec<f32, W>(1.f)));
}
template <class T, int W> INLINE Vec<T, W> select_quadrant(Vec<T, W> r, Bits<T, W> n) { /* sin(r + n * pi/2) */
  Vec<T, W> y = where(Vec<bool, W>((Bits<T, W>)((n & 1) == 0)), sin_reduced(r), cos_reduced(r));
  /* Bit 1 of n, two quarters on, changes the sign: it is moved to the sign bit. */
  return (Raw<T, W>)((Bits<T, W>)y.v ^ ((n & 2) << (8 * sizeof(T) - 2)));
}
template <class T, int W> INLINE bool needs_range_reduction(Vec<T, W> x) { return !every(abs(x) < Vec<T, W>((T)1e4)); }
template <class T, int W> INLINE Vec<T, W> sin(Vec<T, W> x) {
  Bits<T, W> n;
  if (__builtin_expect(needs_range_reduction(x), 0)) { FOR_EACH_LANE(j) x.v[j] = sizeof(T) == 4 ? __builtin_sinf(x.v[j]) : __builtin_sin(x.v[j]); return x; }
  Vec<T, W> r = split_quarters(x, &n);
  return where(x == Vec<T, W>((T)0), x, select_quadrant(r, n));
}
template <class T, int W> INLINE Vec<T, W> cos(Vec<T, W> x) {
  Bits<T, W> n;
  if (__builtin_expect(needs_range_reduction(x), 0)) { FOR_EACH_LANE(j) x.v[j] = sizeof(T) == 4 ? __builtin_cosf(x.v[j]) : __builtin_cos(x.v[j]); return x; }
  Vec<T, W> r = split_quarters(x, &n);
  return select_quadrant(r, n + 1);
}

/* --------------------------------------------------------- float64 functions */

template <int W> INLINE Vec<f64, W> reduce_ln2(Vec<f64, W> x, Raw<i64, W> *n) {
  Vec<f64, W> magic(6755399441055744.), shifted = fma(x, 1.4426950408889634, magic), count = shifted - magic;
  *n = (Raw<i64, W>)shifted.v - 0x4338000000000000;
  return fma(count, -1.9082149292705877e-10, fma(count, -0.6931471803691238, x));
}
template <int W> INLINE Vec<f64, W> exp_tail(Vec<f64, W> r) {
  return polynomial(r, Vec<f64, W>(2.5109571033879842e-08), 2.7631561595523373e-07, 2.755724318408537e-06, 2.4801489074120536e-05,
                    0.00019841269886269162, 0.0013888888947953821, 0.008333333333322226, 0.04166666666651132, 0.16666666666666674, 0.5000000000000013);
}
template <int W> INLINE Vec<f64, W> exp(Vec<f64, W> x0) {
  Vec<f64, W> low(-746.), high(710.), x = where(x0 < low, low, where(x0 > high, high, x0));
  Raw<i64, W> n, half;
  Vec<f64, W> r = reduce_ln2(x, &n), y = fma(r * r, exp_tail(r), r) + Vec<f64, W>(1.);
  n = (n << 48) >> 48; /* a nan brings any number */
  half = n >> 1;
  return y * power_of_two<W>(half) * power_of_two<W>(n - half);
}
template <int W> INLINE Vec<f64, W> sigmoid(Vec<f64, W> x) { return Vec<f64, W>(1.) / (Vec<f64, W>(1.) + exp(-x)); }
template <int W> INLINE Vec<f64, W> tanh(Vec<f64, W> x) {
  Vec<f64, W> a = abs(x), s = x * x, one(1.);
  Vec<f64, W> p = polynomial(s, Vec<f64, W>(-2.1438933340092044e-06), 1.1474596241801871e-05, -3.62718356983587e-05, 9.552381611505521e-05,
                             -0.00023867681491070579, 0.0005899230348382593, -0.0014558172969463639, 0.0035921260808008,
                             -0.008863235377916287, 0.02186948852852567, -0.05396825396802663, 0.1333333333333299, -0.3333333333333333);
  Vec<f64, W> small = copysign(fma(p * s, x, x), x), e = exp(where(a > Vec<f64, W>(20.), Vec<f64, W>(40.), a + a));
  return where(a < Vec<f64, W>(0.625), small, where(isnan(x), x, copysign(one - Vec<f64, W>(2.) / (e + one), x)));
}

template <int W> INLINE Vec<f64, W> exp2(Vec<f64, W> x0) {
  Vec<f64, W> low(-1080.), high(1026.), x = where(x0 < low, low, where(x0 > high, high, x0));
  Vec<f64, W> shifted = x + Vec<f64, W>(6755399441055744.), r = (x - (shifted - Vec<f64, W>(6755399441055744.))) * Vec<f64, W>(0.6931471805599453);
  Raw<i64, W> n = ((Raw<i64, W>)shifted.v << 48) >> 48, half = n >> 1;
  return (fma(r * r, exp_tail(r), r) + Vec<f64, W>(1.)) * power_of_two<W>(half) * power_of_two<W>(n - half);
}
template <int W> INLINE Vec<f64, W> expm1(Vec<f64, W> x0) {
  Vec<f64, W> low(-40.), high(710.), x = where(x0 < low, low, where(x0 > high, high, x0));
  Raw<i64, W> n;
  Vec<f64, W> r = reduce_ln2(x, &n), y = fma(r * r, exp_tail(r), r), scale = power_of_two<W>(n - 1);
  y = fma(scale, y, scale - Vec<f64, W>(0.5)); /* half of the result: 2^n may overflow */
  return where(abs(x0) < Vec<f64, W>(1e-17), x0, y + y);
}
template <int W> INLINE Vec<f64, W> split_exponent(Vec<f64, W> x, Vec<f64, W> *e) {
  Vec<bool, W> tiny = x < Vec<f64, W>(0x1p-1022);
  Raw<i64, W> bits = (Raw<i64, W>)where(tiny, x * Vec<f64, W>(0x1p54), x).v - 0x3fe6a09e667f3bcd;
  *e = cast<f64>(Vec<i64, W>(bits >> 52)) - where(tiny, Vec<f64, W>(54.), Vec<f64, W>(0.));
  return Vec<f64, W>((Raw<f64, W>)((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd)) - Vec<f64, W>(1.);
}
template <int W> INLINE Vec<f64, W> log_tail(Vec<f64, W> f) { /* through s, where 1 + f = (1 + s) / (1 - s) */
  Vec<f64, W> s = f / (f + Vec<f64, W>(2.)), z = s * s, half = f * f * Vec<f64, W>(0.5);
  Vec<f64, W> p = polynomial(z, Vec<f64, W>(0.14797653147308978), 0.15313886251832268, 0.1818357052726732, 0.22222198457721812,
                             0.285714287434815, 0.3999999999940986, 0.6666666666666735);
  return fma(s, fma(z, p, half), -half);
}
template <int W> INLINE Vec<f64, W> log(Vec<f64, W> x) {
  Vec<f64, W> e, f = split_exponent(x, &e);
  return log_limits(x, fma(e, 0.6931471803691238, f + fma(e, 1.9082149292705877e-10, log_tail(f))));
}
template <int W> INLINE Vec<f64, W> log1p(Vec<f64, W> x) {
  Vec<f64, W> one(1.), u = one + x, lost = x - (u - one), e, f = split_exponent(u, &e);
  lost = where(x > Vec<f64, W>(1e17), Vec<f64, W>(0.), lost / u);
  Vec<f64, W> y = fma(e, 0.6931471803691238, f + (lost + fma(e, 1.9082149292705877e-10, log_tail(f))));
  return where(abs(x) < Vec<f64, W>(1e-16), x, log_limits(u, y));
}
template <int W> INLINE Vec<f64, W> split_quarters(Vec<f64, W> x, Raw<i64, W> *n) {
  Vec<f64, W> magic(6755399441055744.), shifted = fma(x, 0.6366197723675814, magic), count = shifted - magic;
  *n = (Raw<i64, W>)shifted.v;
  return fma(count, -6.123233995736766e-17, fma(count, -1.5707963267948966, x));
}
template <int W> INLINE Vec<f64, W> sin_reduced(Vec<f64, W> r) {
  Vec<f64, W> s = r * r, p = polynomial(s, Vec<f64, W>(-7.379619800664796e-13), 1.6054126542133615e-10, -2.5052069607735413e-08,
                                        2.7557319069631193e-06, -0.00019841269840955916, 0.008333333333333038, -0.16666666666666666);
  return fma(p * s, r, r);
}
template <int W> INLINE Vec<f64, W> cos_reduced(Vec<f64, W> r) {
  Vec<f64, W> s = r * r, p = polynomial(s, Vec<f64, W>(-1.1359939388067108e-11), 2.087572937817166e-09, -2.7557314401700487e-07,
                                        2.480158728967354e-05, -0.0013888888888874476, 0.0416666666666666);
  return fma(s * s, p, fma(s, -0.5, Vec<f64, W>(1.)));
}

/* ------------------------------------------- the normal distribution, of both types */

template <int W> INLINE Vec<f64, W> approximate_reciprocal(Vec<f64, W> x) { return Vec<f64, W>(1.) / x; }
/* The share of a normal distribution beyond a > 0 is exp(-a^2 / 2) * (tail_end + t * tail_polynomial(t)) / (a + 4), where
 * t = (a - 4) / (a + 4): no difference of near numbers is taken, so small shares are as exact as large ones. */
template <class T> constexpr T tail_end = sizeof(T) == 4 ? 0.755285144f : 0.7552851304157515;
template <int W> INLINE Vec<f32, W> tail_polynomial(Vec<f32, W> t) {
  return polynomial(t, Vec<f32, W>(-0.000114709437f), 0.000210856757f, 0.00157161499f, -0.00353363436f, -0.00753013603f, 0.0604088865f,
                    -0.186522469f, 0.38713643f, -0.607896626f);
}
template <int W> INLINE Vec<f64, W> tail_polynomial(Vec<f64, W> t) {
  return polynomial(t, Vec<f64, W>(-1.334141095155747e-09), -3.576286559503157e-09, 3.960439226354279e-09, 2.3728485588025914e-08,
                    1.0424839353347507e-08, -9.238694404302336e-08, -1.5283911920580899e-07, 2.785698256203329e-07, 1.0206746817241348e-06,
                    -6.338136380872749e-07, -5.919994166283254e-06, 7.182946406547321e-07, 3.514468288604592e-05, -1.90867715038618e-06,
                    -0.00023109494112800516, 0.0001333443803828345, 0.0016308184586670338, -0.003479692373921601, -0.0075401889667929866,
                    0.06039657489126384, -0.18652185795965645, 0.3871374007422079, -0.6078966419718921);
}
/* That share without a factor 2^n. What rounding loses of a (if it was computed), a^2 / 2, a + 4, a - 4, t and the
 * quotient is carried along: each would count more than once. */
template <class T, int W, class... Rest>
INLINE Vec<T, W> normal_tail(Vec<T, W> a, Vec<T, W> half_square, Vec<T, W> rest_of_square, Bits<T, W> *n, Vec<T, W> *low, Rest... rest_of_a) {
  Vec<T, W> four((T)4), last(tail_end<T>);
  Vec<T, W> below = a + four, lost = a - (below - four), over = approximate_reciprocal(below);
  Vec<T, W> above = a - four, missed = a - (above + four), t = above * over;
  ((lost = lost + rest_of_a, missed = missed + rest_of_a), ...);
  Vec<T, W> off = fma(-t, below, above) + fma(-t, lost, missed);
  Vec<T, W> q = tail_polynomial(t), slope = polynomial(t, Vec<T, W>((T)-0.6), (T)0.77, (T)-0.61);
  Vec<T, W> p = fma(q, t, last), left = fma(off * over, slope, fma(q, t, last - p));
  Vec<T, W> quotient = p * over, rest = fma(-quotient, below, p) + fma(-quotient, lost, left);
  Vec<T, W> r = reduce_ln2(-half_square, n) - rest_of_square;
  Vec<T, W> more = fma(quotient, fma(r * r, exp_tail(r), r), rest * over), sum = quotient + more;
  *low = more - (sum - quotient);
  return sum;
}
template <class T, int W> INLINE Vec<T, W> normal_tail(Vec<T, W> a, Bits<T, W> *n, Vec<T, W> *low) {
  const Vec<T, W> half((T)0.5), square = a * a;
  return normal_tail(a, square * half, fma(a, a, -square) * half, n, low);
}
template <class T, int W> INLINE Vec<T, W> times_power_of_two(Vec<T, W> x, Bits<T, W> n) {
  Bits<T, W> half = n >> 1; /* in two steps: 2^n itself may overflow or be subnormal */
  return x * power_of_two<W>(half) * power_of_two<W>(n - half);
}
template <class T> constexpr T tail_limit = sizeof(T) == 4 ? 15 : 39; /* nothing is left beyond */
template <class T, int W> INLINE Vec<T, W> clamped_abs(Vec<T, W> x, T limit) { return where(abs(x) > Vec<T, W>(limit), Vec<T, W>(limit), abs(x)); }
/* Cumulative distribution function of the normal distribution. */
template <class T, int W> INLINE Vec<T, W> ndtr(Vec<T, W> x) {
  Bits<T, W> n;
  Vec<T, W> low, limit(tail_limit<T>), tail = normal_tail(clamped_abs(x, tail_limit<T>), &n, &low), zero((T)0);
  tail = where(abs(x) > limit, zero, times_power_of_two(tail, n));
  return where(x > zero, Vec<T, W>((T)1) - tail, tail);
}
/* x * ndtr(x); the power of two is applied last, as ndtr(x) may be subnormal where the product is not. */
template <class T, int W> COLD Raw<T, W> gelu_slow_path(Raw<T, W> given) {
  Bits<T, W> n;
  Vec<T, W> low, x(given), limit(tail_limit<T>), tail = normal_tail(clamped_abs(x, tail_limit<T>), &n, &low), zero((T)0);
  Vec<bool, W> gone = abs(x) > limit; /* times 0, as in eager: of minus infinity that is a nan */
  Vec<T, W> part = times_power_of_two(fma(x, where(gone, zero, tail), x * where(gone, zero, low)), n);
  return where(x > limit, x, where(x > zero, x - part, part)).v;
}
template <class T, int W> INLINE Vec<T, W> gelu(Vec<T, W> x) {
  Bits<T, W> n;
  Vec<T, W> low, tail = normal_tail(abs(x), &n, &low), part = fma(x, tail, x * low) * power_of_two<W>(n);
  if (all_within(x, (T)(sizeof(T) == 4 ? 12 : 37))) return where(x > Vec<T, W>((T)0), x - part, part); /* no part is subnormal if its x is normal */
  return gelu_slow_path<T, W>(x.v);
}
/* Accurate to five digits, enough for bfloat16's two and a half: no compensation terms. */
template <int W> INLINE Vec<f32, W> approximate_gelu(Vec<f32, W> x) {
  if (!all_within(x, 12.f)) return gelu_slow_path<f32, W>(x.v);
  Raw<i32, W> n;
  Vec<f32, W> a = abs(x), four(4.f), over = approximate_reciprocal(a + four), t = (a - four) * over;
  Vec<f32, W> p = polynomial(t, Vec<f32, W>(-0.00479807798f), -0.00685912417f, 0.0611078702f, -0.186616763f, 0.387041658f, -0.607890844f, 0.755286932f);
  Vec<f32, W> r = reduce_ln2(a * a * Vec<f32, W>(-0.5f), &n);
  Vec<f32, W> e = fma(r * r, polynomial(r, Vec<f32, W>(0.041921176f), 0.167538866f, 0.49998951f), r) + Vec<f32, W>(1.f);
  Vec<f32, W> part = x * p * over * Vec<f32, W>((Raw<f32, W>)((Raw<i32, W>)e.v + (n << 23)));
  return where(x > Vec<f32, W>(0.f), x - part, part);
}
/* Twice the upper tail at sqrt(2) * x; for negative x, 2 minus that. */
template <class T, int W> INLINE Vec<T, W> erfc(Vec<T, W> x) {
  constexpr T root = 1.4142135623730951, limit = sizeof(T) == 4 ? 10.5 : 27.5;
  Bits<T, W> n;
  Vec<T, W> low, zero((T)0), size = clamped_abs(x, limit), square = size * size, a = size * Vec<T, W>(root);
  Vec<T, W> rest = fma(size, root, -a) + size * Vec<T, W>((T)(1.4142135623730951 - root) + (T)(sizeof(T) == 8 ? -9.667293313452913e-17 : 0));
  Vec<T, W> tail = normal_tail(a, square, fma(size, size, -square), &n, &low, rest);
  tail = where(abs(x) > Vec<T, W>(limit), zero, times_power_of_two(tail, n + 1));
  return where(x < zero, Vec<T, W>((T)2) - tail, tail);
}
/* Far from 0 it is 1 less a small number: nothing that rounding loses of that counts. */
template <int W> INLINE Vec<f64, W> erf(Vec<f64, W> x) {
  Vec<f64, W> one(1.), four(4.), s = x * x, size = clamped_abs(x, 6.), a = size * Vec<f64, W>(1.4142135623730951);
  Vec<f64, W> p = polynomial(s, Vec<f64, W>(-7.685750634035418e-10), 1.3658844197906123e-08, -1.6193772793551128e-07, 1.6445424197077972e-06,
                             -1.4924567694946609e-05, 0.00012055285690674548, -0.0008548325652241672, 0.0052239776000212, -0.02686617064232217,
                             0.11283791670938845, -0.3761263890318337, 0.12837916709551256);
  Raw<i64, W> n;
  Vec<f64, W> over = one / (a + four), t = (a - four) * over, r = reduce_ln2(-(size * size), &n);
  Vec<f64, W> e = (fma(r * r, exp_tail(r), r) + one) * power_of_two<W>(n + 1);
  Vec<f64, W> far = fma(-e * over, fma(tail_polynomial(t), t, Vec<f64, W>(tail_end<f64>)), one);
  return where(abs(x) < one, fma(p, x, x), copysign(far, x));
}

/* ------------------------------------------------------- functions of both types */

template <class T> constexpr T half_pi_low = sizeof(T) == 4 ? -4.37113883e-08 : 6.123233995736766e-17;
template <class T, int W> INLINE Vec<T, W> half_pi_less(Vec<T, W> x) { /* pi/2 - x */
  return (Vec<T, W>((T)1.5707963267948966) - x) + Vec<T, W>(half_pi_low<T>);
}
template <class T, int W> INLINE Vec<T, W> tan(Vec<T, W> x) {
  if (__builtin_expect(needs_range_reduction(x), 0)) { FOR_EACH_LANE(j) x.v[j] = sizeof(T) == 4 ? __builtin_tanf(x.v[j]) : __builtin_tan(x.v[j]); return x; }
  Bits<T, W> n;
  Vec<T, W> r = split_quarters(x, &n), s = sin_reduced(r), c = cos_reduced(r);
  Vec<bool, W> even = Vec<bool, W>((Bits<T, W>)((n & 1) == 0));
  return where(x == Vec<T, W>((T)0), x, where(even, s, -c) / where(even, c, s));
}
template <int W> INLINE Vec<f32, W> atan_polynomial(Vec<f32, W> s) { /* (atan(x) / x - 1) / x^2 of s = x^2 <= 1 */
  return polynomial(s, Vec<f32, W>(0.00291834446f), -0.0163588505f, 0.0431977436f, -0.0755108893f, 0.10665521f, -0.142109483f,
                    0.199937627f, -0.333331525f);
}
template <int W> INLINE Vec<f64, W> atan_polynomial(Vec<f64, W> s) { /* the same, x <= tan(pi/8) */
  return polynomial(s, Vec<f64, W>(-0.017919332661730892), 0.03807550693633169, -0.05039729065694281, 0.05847981566483975,
                    -0.0666311637312908, 0.0769206125671185, -0.09090897813093607, 0.11111110785236766, -0.14285714280228168,
                    0.19999999999953852, -0.333333333333332);
}
template <int W> INLINE Vec<f32, W> atan_reduced(Vec<f32, W> t) { return fma(atan_polynomial(t * t) * (t * t), t, t); }
template <int W> INLINE Vec<f64, W> atan_reduced(Vec<f64, W> t) { /* 0 <= t <= 1 */
  Vec<f64, W> one(1.);
  Vec<bool, W> steep = t > Vec<f64, W>(0.41421356237309503);
  Vec<f64, W> u = where(steep, (t - one) / (t + one), t), p = fma(atan_polynomial(u * u) * (u * u), u, u);
  return where(steep, Vec<f64, W>(0.7853981633974483) + (p + Vec<f64, W>(3.061616997868383e-17)), p);
}
template <class T, int W> INLINE Vec<T, W> atan(Vec<T, W> x) {
  Vec<T, W> a = abs(x), one((T)1);
  Vec<bool, W> far = a > one;
  Vec<T, W> p = atan_reduced(where(far, one / a, a));
  return copysign(where(far, half_pi_less(p), p), x);
}
template <class T, int W> INLINE Vec<T, W> atan2(Vec<T, W> y, Vec<T, W> x) {
  Vec<T, W> a = abs(y), b = abs(x), zero((T)0), one((T)1), most = larger(a, b), least = smaller(a, b);
  Vec<T, W> p = atan_reduced(where(most == zero, zero, where(isinf(least), one, least / most)));
  p = where(a > b, half_pi_less(p), p);
  p = where(signbit(x), (Vec<T, W>((T)3.141592653589793) - p) + Vec<T, W>(2 * half_pi_low<T>), p);
  return where(isnan(x) | isnan(y), x + y, copysign(p, y));
}
template <int W> INLINE Vec<f32, W> asin_reduced(Vec<f32, W> t, Vec<f32, W> s) { /* s = t^2 <= 1/4 */
  Vec<f32, W> p = polynomial(s, Vec<f32, W>(0.0422093011f), 0.0241533238f, 0.0454758592f, 0.0749525279f, 0.166667536f);
  return fma(p * s, t, t);
}
template <int W> INLINE Vec<f64, W> asin_reduced(Vec<f64, W> t, Vec<f64, W> s) {
  Vec<f64, W> p = polynomial(s, Vec<f64, W>(0.03268397762740283), -0.02108918261066137, 0.021772345160195748, 0.003679199799944035,
                             0.010787608161368607, 0.01139757099184296, 0.013980988205720763, 0.017351597706041357, 0.022372215801927425,
                             0.03038194267830506, 0.04464285717523566, 0.0749999999997014, 0.16666666666666763);
  return fma(p * s, t, t);
}
template <class T, int W> INLINE Vec<T, W> asin(Vec<T, W> x) {
  Vec<T, W> a = abs(x), half((T)0.5);
  Vec<bool, W> far = a > half; /* pi/2 less twice the arc whose sine is the root of (1 - a) / 2 */
  Vec<T, W> s = where(far, fma(-a, half, half), a * a), p = asin_reduced(where(far, sqrt(s), a), s);
  return where(a > Vec<T, W>((T)1), Vec<T, W>(negative_nan<T>), copysign(where(far, half_pi_less(p + p), p), x));
}
template <class T, int W> INLINE Vec<T, W> acos(Vec<T, W> x) {
  Vec<T, W> a = abs(x), half((T)0.5);
  Vec<bool, W> far = a > half;
  Vec<T, W> s = where(far, fma(-a, half, half), a * a), p = asin_reduced(where(far, sqrt(s), a), s), twice = p + p;
  Vec<T, W> reflected = (Vec<T, W>((T)3.141592653589793) - twice) + Vec<T, W>(2 * half_pi_low<T>);
  return where(far, where(signbit(x), reflected, twice), half_pi_less(copysign(p, x)));
}
/* The inverse of erf is y * P(w), where w = -log(1 - y^2); far from 0 P is a polynomial of the root of w. */
template <int W> INLINE Vec<f32, W> erfinv_share(Vec<f32, W> w) {
  Vec<f32, W> near = polynomial(w - Vec<f32, W>(2.5f), Vec<f32, W>(-8.25716651e-09f), 2.79099162e-08f, 4.60184907e-07f, -3.52059328e-06f,
                                -4.94435517e-06f, 0.000218567628f, -0.00125275447f, -0.00417766115f, 0.24664028f, 1.50140941f);
  Vec<bool, W> far = w > Vec<f32, W>(5.f);
  if (!some(far)) return near;
  return where(far, polynomial(sqrt(w) - Vec<f32, W>(3.f), Vec<f32, W>(0.000130665896f), -0.000316465244f, -8.25925599e-05f, 0.00149280392f,
                               -0.00358157302f, 0.00568472175f, -0.0076411441f, 0.00944534596f, 1.00167525f, 2.83297682f), near);
}
template <int W> COLD Raw<f64, W> erfinv_share_slow_path(Raw<f64, W> given) { /* w > 6.25, then w > 16 */
  Vec<f64, W> w(given), root = sqrt(w);
  Vec<f64, W> far = polynomial(root - Vec<f64, W>(3.25), Vec<f64, W>(-1.607800791604305e-08), -5.273263829458544e-10, 1.3353786977932906e-07,
                               -2.681469529503815e-07, -2.966103443914487e-08, 1.4952125971226234e-06, -3.984560939380483e-06,
                               2.927810268526959e-06, 1.2464660222885963e-05, -4.7319712199700106e-05, 6.828718461316539e-05,
                               2.40314086744025e-05, -0.00035503782014091395, 0.0009532893456430356, -0.0016882755352247982,
                               0.0024914420980985358, -0.0037512085082220354, 0.00537091455354359, 1.0052589676941652, 3.0838856104922208);
  Vec<f64, W> farther = polynomial(root - Vec<f64, W>(5.), Vec<f64, W>(4.4436050424604214e-11), -2.1880723161235958e-11,
                                   -4.4448845281821816e-10, 1.486283046823412e-09, -3.458834807558675e-09, 7.651316139775254e-09,
                                   -1.5266902941842515e-08, 2.911689653174884e-08, -6.754990035399955e-08, 2.2901994442242208e-07,
                                   -9.930312429979803e-07, 4.526058543733597e-06, -1.9681770421954375e-05, 7.59952775783472e-05,
                                   -0.00021503011984447623, -0.00013871931836654204, 1.0103004648645455, 4.849906401408584);
  return where(w > Vec<f64, W>(16.), farther, far).v;
}
template <int W> INLINE Vec<f64, W> erfinv_share(Vec<f64, W> w) {
  Vec<f64, W> near = polynomial(w - Vec<f64, W>(3.125), Vec<f64, W>(3.381205271273331e-21),
                                -9.928112957621485e-22, -3.578610855283908e-19, 1.1434987549275992e-18, 1.576752208408985e-17,
                                -1.300168058797981e-16, -4.2975869682090826e-17, 6.594390472993406e-15, -3.9988787691965877e-14,
                                -8.11673855149517e-14, 2.630348730396158e-12, -1.2976973654598773e-11, -5.4142367193210537e-11,
                                1.0512184557413642e-09, -4.112662035509627e-09, -2.9070382912111423e-08, 4.234788191690113e-07,
                                -1.365469184234402e-06, -1.3882523395876373e-05, 0.00018673420802409427, -0.0007407025341539124,
                                -0.0060336708714276936, 0.24015818242558826, 1.6536545626831027);
  Vec<bool, W> far = w > Vec<f64, W>(6.25);
  if (__builtin_expect(!some(far), 1)) return near;
  return where(far, Vec<f64, W>(erfinv_share_slow_path<W>(w.v)), near);
}
template <class T, int W> INLINE Vec<T, W> erfinv(Vec<T, W> y) {
  Vec<T, W> one((T)1), infinity((T)__builtin_inf()), x = y * erfinv_share(-log(fma(-y, y, one)));
  return where(abs(y) == one, copysign(infinity, y), x);
}

/* lgamma(2 + u) / u, u from -0.65 to 0.35; and what x * (lgamma(x) less the first terms of its series) is of 1 / x^2, x >= 7.5 */
template <int W> INLINE Vec<f32, W> lgamma_near_two(Vec<f32, W> u) {
  return polynomial(u, Vec<f32, W>(-0.000428485015f), 0.000495006796f, -0.00113107334f, 0.00289391051f, -0.00739443349f,
                    0.0205808021f, -0.0673517436f, 0.322467029f, 0.422784328f);
}
template <int W> INLINE Vec<f64, W> lgamma_near_two(Vec<f64, W> u) {
  return polynomial(u, Vec<f64, W>(1.1987189887878411e-06), 9.391079273331783e-07, 1.4133914224236218e-06,
                    -2.433804297863975e-06, 4.070656918408841e-06, -9.431987921563734e-06, 2.0563954427378397e-05,
                    -4.491788135820194e-05, 9.945259851669181e-05, -0.00022315589974938508, 0.0005096697377102643,
                    -0.0011927538497208603, 0.002890510326357131, -0.007385551030131431, 0.020580808427820434,
                    -0.06735230105318656, 0.32246703342411315, 0.42278433509846713);
}
template <int W> INLINE Vec<f32, W> lgamma_series(Vec<f32, W> s) { return polynomial(s, Vec<f32, W>(-0.00276410999f), 0.083333306f); }
template <int W> INLINE Vec<f64, W> lgamma_series(Vec<f64, W> s) {
  return polynomial(s, Vec<f64, W>(-0.0016217902352994688), 0.0008361304098549689, -0.000595187678576142, 0.0007936505874946076,
                    -0.0027777777774689078, 0.08333333333333326);
}
/* Logarithm in two parts: value and rounding error. */
template <class T, int W> INLINE Vec<T, W> log_in_two(Vec<T, W> x, Vec<T, W> *low) {
  constexpr T two = sizeof(T) == 4 ? 0.693145752f : 0.6931471803691238, rest = sizeof(T) == 4 ? 1.42860677e-06f : 1.9082149292705877e-10;
  Vec<T, W> e, f = split_exponent(x, &e), most = e * Vec<T, W>(two), sum = most + f;
  *low = (f - (sum - most)) + fma(e, rest, log_tail(f));
  return log_limits(x, sum);
}
NB_LANEWISE(libm_lgamma, __builtin_lgammaf, __builtin_lgamma)
/* Below 0 logarithms cancel each other: float32's are those of float64, which calls the C library below -7.5. */
template <int W> COLD Raw<f64, W> lgamma_below(Raw<f64, W> x) { return libm_lgamma<W>(Vec<f64, W>(x)).v; }
template <int W> COLD Raw<f32, W> lgamma_below(Raw<f32, W> given) {
  Vec<f32, W> x(given);
  if constexpr (W <= LANES64) return cast<f32>(lgamma(cast<f64>(x))).v;
  else return both_halves(Vec<f32, W / 2>(lgamma_below<W / 2>(half_of(x, 0).v)), Vec<f32, W / 2>(lgamma_below<W / 2>(half_of(x, 1).v))).v;
}
/* Up to 7.5 it is that of a number between 1.35 and 2.35, and the logarithm of the factors on the way; beyond that
 * Stirling's series. Where eager's overflows, so does this: a little before it had to. */
template <class T, int W> INLINE Vec<T, W> lgamma(Vec<T, W> x) {
  Vec<T, W> one((T)1), two((T)2), infinity((T)__builtin_inf()), limit((T)7.5), product = one;
  Vec<bool, W> far = x > limit, below = x < Vec<T, W>((T)(sizeof(T) == 4 ? 0 : -7.5));
  Vec<T, W> n = where(far | below, two, round(x + Vec<T, W>((T)0.15))), u = x - n;
  for (T k = 2; k < 8 && some(n > Vec<T, W>(k)); k++) product = where(n > Vec<T, W>(k), product * (x + (Vec<T, W>(k) - n)), product);
  for (T k = 1; k > -9 && some(n <= Vec<T, W>(k)); k--) product = where(n <= Vec<T, W>(k), product * (x + (Vec<T, W>(k) - n)), product);
  Vec<T, W> low, l = log_in_two(where(far, x, abs(product)), &low), over = one / x;
  Vec<T, W> near = fma(u, lgamma_near_two(u), where(n > two, l, -l)) + where(n > two, low, -low);
  Vec<T, W> series = fma(x - Vec<T, W>((T)0.5), (l - one) + low, fma(over, lgamma_series(over * over), Vec<T, W>((T)0.4189385332046727)));
  const Vec<T, W> most((T)(sizeof(T) == 4 ? 4.03711e+36 : 2.5563481638716906e+305));
  near = where(x > most, infinity, where(far, series, near));
  if (!some(below)) return near;
  return where(below, Vec<T, W>(lgamma_below<W>(x.v)), near);
}

/* exp(a) / 2, as two factors where exp(a) overflows. */
template <class T, int W> INLINE Vec<T, W> half_exp(Vec<T, W> a) {
  Vec<T, W> half((T)0.5), w = exp(a * half);
  return half * w * w;
}
template <class T, int W> INLINE Vec<T, W> sinh(Vec<T, W> x) {
  /* (exp(a) - exp(-a)) / 2 in terms of exp(a) - 1, without a difference of two numbers near 1. */
  Vec<T, W> a = abs(x), e = expm1(a), near = (e + e / (e + Vec<T, W>((T)1))) * Vec<T, W>((T)0.5);
  return copysign(where(a > Vec<T, W>((T)(sizeof(T) == 4 ? 88 : 709)), half_exp(a), near), x);
}
template <class T, int W> INLINE Vec<T, W> cosh(Vec<T, W> x) {
  Vec<T, W> a = abs(x), half((T)0.5), e = exp(a);
  return where(a > Vec<T, W>((T)(sizeof(T) == 4 ? 88 : 709)), half_exp(a), fma(half, e, half / e));
}
template <class T, int W> INLINE Vec<T, W> asinh(Vec<T, W> x) {
  Vec<T, W> a = abs(x), one((T)1), near = log1p(a + a * a / (one + sqrt(fma(a, a, one))));
  return copysign(where(a > Vec<T, W>((T)1e9), log(a) + Vec<T, W>((T)0.6931471805599453), near), x);
}
template <class T, int W> INLINE Vec<T, W> acosh(Vec<T, W> x) {
  Vec<T, W> one((T)1), t = x - one, near = log1p(t + sqrt(fma(t, t, t + t)));
  near = where(x < one, Vec<T, W>(negative_nan<T>), near);
  return where(x > Vec<T, W>((T)1e9), log(x) + Vec<T, W>((T)0.6931471805599453), near);
}
template <class T, int W> INLINE Vec<T, W> atanh(Vec<T, W> x) {
  Vec<T, W> a = abs(x), one((T)1), y = log1p((a + a) / (one - a));
  return where(a > one, Vec<T, W>(negative_nan<T>), copysign(y * Vec<T, W>((T)0.5), x));
}
template <class T, int W> INLINE Vec<T, W> log2(Vec<T, W> x) {
  constexpr T high = sizeof(T) == 4 ? 1.44269502 : 1.4426950408889634, low = sizeof(T) == 4 ? 1.92596303e-08 : 2.0355273740931033e-17;
  Vec<T, W> e, f = split_exponent(x, &e), l = f + log_tail(f);
  return log_limits(x, fma(l, high, fma(l, low, e)));
}
template <class T, int W> INLINE Vec<T, W> log10(Vec<T, W> x) {
  constexpr T high = sizeof(T) == 4 ? 0.434294492 : 0.4342944819032518, low = sizeof(T) == 4 ? -1.010305e-08 : 1.098319650216765e-17;
  constexpr T two = sizeof(T) == 4 ? 0.301025390625 : 0.30102999566395283, rest = sizeof(T) == 4 ? 4.605038981195214e-06 : 2.8363394551044964e-14;
  Vec<T, W> e, f = split_exponent(x, &e), l = f + log_tail(f);
  return log_limits(x, fma(e, two, fma(l, high, fma(l, low, e * Vec<T, W>(rest)))));
}
template <class T, int W> INLINE Vec<T, W> hypot(Vec<T, W> x, Vec<T, W> y) {
  Vec<T, W> a = abs(x), b = abs(y), most = larger(a, b), share = smaller(a, b) / most, one((T)1);
  Vec<T, W> length = where(most == Vec<T, W>((T)0), most, most * sqrt(fma(share, share, one)));
  length = where(isnan(a) | isnan(b), a + b, length);
  return where(isinf(a) | isinf(b), Vec<T, W>((T)__builtin_inf()), length);
}

/* Split a vector into halves, and join them. */
template <int W> INLINE Vec<f32, W / 2> half_of(Vec<f32, W> x, int which) {
  Vec<f32, W / 2> half;
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (W == 16) {
    const Raw<f64, 8> both = (Raw<f64, 8>)x.v;
    if (which) return (Raw<f32, 8>)__builtin_ia32_extractf64x4_mask(both, 1, Raw<f64, 4>{}, (char)-1);
    return (Raw<f32, 8>)__builtin_ia32_extractf64x4_mask(both, 0, Raw<f64, 4>{}, (char)-1);
  }
#endif
  __builtin_memcpy(&half, (char *)&x + which * sizeof(half), sizeof(half));
  return half;
}
template <int H> INLINE Vec<f32, 2 * H> both_halves(Vec<f32, H> low, Vec<f32, H> high) {
  Vec<f32, 2 * H> both;
#if defined(NB_X86) && defined(__AVX512F__)
  if constexpr (H == 8) {
    const Raw<f64, 8> first = __builtin_ia32_insertf64x4_mask(Raw<f64, 8>{}, (Raw<f64, 4>)low.v, 0, Raw<f64, 8>{}, (char)-1);
    return (Raw<f32, 16>)__builtin_ia32_insertf64x4_mask(first, (Raw<f64, 4>)high.v, 1, first, (char)-1);
  }
#endif
  __builtin_memcpy(&both, &low, sizeof(low));
  __builtin_memcpy((char *)&both + sizeof(low), &high, sizeof(low));
  return both;
}
/* |x|^y through float64, as a logarithm that is multiplied needs more digits than float32 has; and no more than 37. */
template <int W> INLINE Vec<f32, W> power_of_size(Vec<f32, W> x, Vec<f32, W> y) {
  if constexpr (W > LANES64) {
    const auto low = power_of_size(half_of(x, 0), half_of(y, 0)), high = power_of_size(half_of(x, 1), half_of(y, 1));
    return both_halves(low, high);
  } else {
    Vec<f64, W> base = cast<f64>(abs(x)), e, two(2.), f = split_exponent(base, &e), s = f / (f + two), z = s * s;
    Vec<f64, W> p = polynomial(z, Vec<f64, W>(0.23583711718848097), 0.2853722873338007, 0.400003364186237, 0.6666666564008027, 2.);
    Vec<f64, W> l = log_limits(base, fma(e, 0.6931471805599453, s * p)), low(-160.), high(100.);
    Vec<f64, W> power = smaller(larger(l * cast<f64>(y), low), high);
    Raw<i64, W> n;
    Vec<f64, W> r = reduce_ln2(power, &n);
    p = polynomial(r, Vec<f64, W>(0.00019914278262642487), 0.0013946149264989027, 0.008333272033407956, 0.041666268496311595,
                   0.16666666826503598, 0.5000000078551019);
    Vec<f64, W> result = fma(r * r, p, r) + Vec<f64, W>(1.);
    return cast<f32>(Vec<f64, W>((Raw<f64, W>)((Raw<i64, W>)result.v + (n << 52))));
  }
}
/* The same of float64. The logarithm has 65 digits in two numbers: with s = f / (f + 2) it is 2s + 2s^3/3 + s^5 * P(s^2), of
 * which the first two terms, times ln 2 and the exponent, carry what rounding loses. */
template <int W> INLINE Vec<f64, W> long_log(Vec<f64, W> x, Vec<f64, W> *low) {
  Vec<f64, W> e, f = split_exponent(x, &e), two(2.), third(0.6666666666666666);
  Vec<f64, W> below = f + two, over = Vec<f64, W>(1.) / below, s = f * over, s_low = fma(two - below + f, -s, fma(-s, below, f)) * over;
  Vec<f64, W> z = s * s, z_low = fma(s + s, s_low, fma(s, s, -z));
  Vec<f64, W> p = z * polynomial(z, Vec<f64, W>(0.1085280580144422), 0.11797005564471366, 0.13331078118198364, 0.15384671035188435,
                                 0.18181817535317715, 0.22222222225683091, 0.2857142857142171, 0.4);
  Vec<f64, W> c = p + third, c_low = p - (c - third) + Vec<f64, W>(3.700743415417188e-17);
  Vec<f64, W> cz = c * z, cz_low = fma(c, z_low, fma(c_low, z, fma(c, z, -cz)));
  Vec<f64, W> cube = s * cz, cube_low = fma(s, cz_low, fma(s_low, cz, fma(s, cz, -cube)));
  Vec<f64, W> most = e * Vec<f64, W>(0.6931471803691238), twice = s + s, first = most + twice, sum = first + cube;
  Vec<f64, W> rest = (twice - (first - most)) + (cube - (sum - first)) + fma(e, 1.9082149292705877e-10, s_low + s_low + cube_low);
  Vec<f64, W> high = log_limits(x, sum + rest);
  *low = rest - (high - sum);
  return high;
}
template <int W> INLINE Vec<f64, W> power_of_size(Vec<f64, W> x, Vec<f64, W> y) {
  Vec<f64, W> low, high = long_log(abs(x), &low), power = high * y, limit(800.), zero(0.);
  Vec<f64, W> rest = fma(high, y, -power) + low * y;
  rest = where(abs(power) < limit, rest, zero);
  Raw<i64, W> n;
  Vec<f64, W> r = reduce_ln2(smaller(larger(power, -limit), limit), &n) + rest;
  return times_power_of_two(fma(r * r, exp_tail(r), r) + Vec<f64, W>(1.), n);
}
template <class T, int W> INLINE Vec<T, W> float_pow(Vec<T, W> x, Vec<T, W> y) {
  Vec<T, W> zero((T)0), one((T)1), nan((T)__builtin_nan("")), a = abs(x), size = power_of_size(x, y);
  Vec<bool, W> whole = trunc(y) == y, odd = whole & (trunc(y * Vec<T, W>((T)0.5)) * Vec<T, W>((T)2) != y);
  size = where(odd & signbit(x), -size, size);
  size = where((x < zero) & !whole & !isinf(x), nan, size);
  size = where((a == one) & isinf(y), one, size);
  size = where(isnan(x) | isnan(y), nan, size);
  return where((x == one) | (y == zero), one, size);
}

/* -------------------------------------- calls of the C library, lane by lane */

/* Neighbours are those of the bits as integers; away from zero the larger one. */
template <class T, int W> INLINE Vec<T, W> nextafter(Vec<T, W> a, Vec<T, W> b) {
  typedef typename IntOf<sizeof(T)>::type I;
  Vec<T, W> zero((T)0);
  Vec<I, W> bits = bit_cast<I>(a), one((I)1);
  Vec<T, W> next = bit_cast<T>(where((a < b) == (a > zero), bits + one, bits - one));
  next = where(a == zero, copysign(bit_cast<T>(one), b), next);
  return where(isnan(a) | isnan(b), a + b, where(a == b, b, next));
}
template <class T, int W> INLINE Vec<T, W> pow(Vec<T, W> a, Vec<T, W> b) {
  if constexpr (is_float<T>) return float_pow(a, b);
  else { FOR_EACH_LANE(j) a.v[j] = int_pow(a.v[j], b.v[j]); return a; }
}

/* digamma: carried to where its asymptotic series is exact; reflected for negative numbers. */
static double digamma_one(double x) {
  double sum = 0;
  if (x == 0) return -__builtin_copysign(__builtin_inf(), x);
  if (x < 0) {
    if (x == __builtin_floor(x)) return __builtin_nan("");
    double fraction = x - __builtin_trunc(x);
    sum = -3.141592653589793 / __builtin_tan(3.141592653589793 * fraction);
    x = 1 - x;
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  double s = 1 / (x * x);
  double series = s * (1. / 12 - s * (1. / 120 - s * (1. / 252 - s * (1. / 240 - s * (1. / 132 - s * (691. / 32760 - s / 12))))));
  return sum + __builtin_log(x) - 0.5 / x - series;
}
NB_LANEWISE(digamma, digamma_one, digamma_one)

/* --------------------------------------------------------------- reductions */

/* State of an argmax or argmin: the best value so far of each lane, and its index. Of equal values the smallest index,
 * NaN before any number. Indices are as wide as the kernel's lanes. */
template <int W> using IndexLane = typename IntOf<W == LANES32 ? 4 : 8>::type;
template <class T, int W> struct Best {
  Vec<T, W> value;
  Vec<IndexLane<W>, W> index;
};
template <class T, int W> INLINE Vec<bool, W> beats(bool largest, Vec<T, W> a, Vec<IndexLane<W>, W> at, Vec<T, W> b, Vec<IndexLane<W>, W> bt) {
  Vec<bool, W> better = (largest ? a > b : a < b) | (isnan(a) & !isnan(b));
  Vec<bool, W> equal = (a == b) | (isnan(a) & isnan(b));
  return better | (equal & (at < bt));
}

template <class T> struct Limits {
  static constexpr T highest() { return (T)-1 > (T)0 ? (T)-1 : (T)~Sign<T>::bit; }
  static constexpr T lowest() { return (T)-1 > (T)0 ? (T)0 : (T)Sign<T>::bit; }
};
template <> struct Limits<f32> {
  static constexpr f32 highest() { return __builtin_inff(); }
  static constexpr f32 lowest() { return -__builtin_inff(); }
};
template <> struct Limits<f64> {
  static constexpr f64 highest() { return __builtin_inf(); }
  static constexpr f64 lowest() { return -__builtin_inf(); }
};
template <> struct Limits<bool> {
  static constexpr bool highest() { return true; }
  static constexpr bool lowest() { return false; }
};

struct Sum {
  template <class V> static METHOD V join(V a, V b) { return a + b; }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>((T)0); }
};
struct Prod {
  template <class V> static METHOD V join(V a, V b) { return a * b; }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>((T)1); }
};
struct Max {
  template <class V> static METHOD V join(V a, V b) { return maximum(a, b); }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>(Limits<T>::lowest()); }
};
struct Min {
  template <class V> static METHOD V join(V a, V b) { return minimum(a, b); }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>(Limits<T>::highest()); }
};
struct Any {
  template <class V> static METHOD V join(V a, V b) { return a | b; }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>(false); }
};
struct Every {
  template <class V> static METHOD V join(V a, V b) { return a & b; }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>(true); }
};
template <bool largest> struct Arg {
  template <class T, int W> static METHOD Best<T, W> join(Best<T, W> a, Best<T, W> b) {
    Vec<bool, W> taken = beats(largest, b.value, b.index, a.value, a.index);
    return {where(taken, b.value, a.value), where(taken, b.index, a.index)};
  }
  template <class T, int W> static METHOD Best<T, W> identity() {
    /* The largest index: in a row of minus infinities the first element must win against the identity. */
    return {Vec<T, W>(largest ? Limits<T>::lowest() : Limits<T>::highest()), Vec<IndexLane<W>, W>(Limits<IndexLane<W>>::highest())};
  }
};

/* As Arg, but of equal values the last index, as cummax and cummin have it. NaN is best. */
template <bool largest> struct Latest {
  template <class T, int W> static METHOD Best<T, W> join(Best<T, W> a, Best<T, W> b) {
    Vec<bool, W> taken = isnan(b.value) | (!isnan(a.value) & (largest ? b.value >= a.value : b.value <= a.value));
    return {where(taken, b.value, a.value), where(taken, b.index, a.index)};
  }
  template <class T, int W> static METHOD Best<T, W> identity() {
    return {Vec<T, W>(largest ? Limits<T>::lowest() : Limits<T>::highest()), Vec<IndexLane<W>, W>((IndexLane<W>)0)};
  }
};
struct LogSumExp {
  template <class T, int W> static METHOD Vec<T, W> join(Vec<T, W> a, Vec<T, W> b) {
    Vec<T, W> high = maximum(a, b), low = minimum(a, b), sum = high + log1p(exp(low - high));
    return where((a == b) & isinf(a), a, sum);
  }
  template <class T, int W> static METHOD Vec<T, W> identity() { return Vec<T, W>(Limits<T>::lowest()); }
};

template <class T, int W> INLINE Vec<T, W> select_lanes(All, Vec<T, W> next, Vec<T, W>) { return next; }
template <class T, int W, class L> INLINE Vec<T, W> select_lanes(L lanes, Vec<T, W> next, Vec<T, W> before) {
  return where(mask_of<W>(lanes), next, before);
}
template <class T, int W, class L> INLINE Best<T, W> select_lanes(L lanes, Best<T, W> next, Best<T, W> before) {
  return {select_lanes(lanes, next.value, before.value), select_lanes(lanes, next.index, before.index)};
}
/* total = total (kind) value, in the active lanes */
template <class Kind, class L, class V> INLINE void combine(V &total, L lanes, V value) {
  total = select_lanes(lanes, Kind::join(total, value), total);
}

/* Fold a partial accumulator into the total. Compensated summation: the rounding error of a sum starts the next partial. */
template <class Kind, class T, int W, class V> INLINE void fold(V &total, V &part) {
  V before = total;
  total = Kind::join(total, part);
  if constexpr (same_type<Kind, Sum> && is_float<T>) {
    V lost = part - (total - before);
    part = where(total - total == V((T)0), lost, V((T)0)); /* an infinite total has no rounding error */
  } else {
    part = Kind::template identity<T, W>();
  }
}

template <class T, int W> INLINE Vec<T, 1> lane(Vec<T, W> x, int j) { return Vec<T, 1>((typename Vec<T, 1>::Lane)x.v[j]); }
template <int W> INLINE Vec<bool, 1> lane(Vec<bool, W> x, int j) { return Vec<bool, 1>(x.v[j] != 0); }
template <class T, int W> INLINE Best<T, 1> lane(Best<T, W> x, int j) { return {lane(x.value, j), Vec<i64, 1>((i64)x.index.v[j])}; }
/* Upper half of the first 2 * half lanes, moved to the front. */
template <int half, class T, int W> INLINE Vec<T, W> upper(Vec<T, W> x) {
#ifdef __clang__
  Vec<T, W> moved = x;
  for (int j = 0; j < half; j++) moved.v[j] = x.v[j + half];
  return moved;
#else
  Raw<typename IntOf<sizeof(x.v[0])>::type, W> from;
  FOR_EACH_LANE(j) from[j] = j ^ half;
  return __builtin_shuffle(x.v, from);
#endif
}
template <int half, class T, int W> INLINE Best<T, W> upper(Best<T, W> x) { return {upper<half>(x.value), upper<half>(x.index)}; }
/* Horizontal reduction of all lanes by halves: always the same tree, so the result is deterministic. */
template <class Kind, int W, int half = W / 2, class V> INLINE auto reduce_lanes(V x) {
  if constexpr (half == 0) return lane(x, 0);
  else return reduce_lanes<Kind, W, half / 2>(Kind::join(x, upper<half>(x)));
}

/* Lanes shifted up by `by`; the first ones come from another vector. */
template <int by, class T, int W> INLINE Vec<T, W> moved_up(Vec<T, W> x, Vec<T, W> first) {
#ifdef __clang__
  Vec<T, W> moved = first;
  for (int j = by; j < W; j++) moved.v[j] = x.v[j - by];
  return moved;
#else
  Bits<T, W> from;
  for (int j = 0; j < W; j++) from[j] = j < by ? W + j : j - by;
  return __builtin_shuffle(x.v, first.v, from);
#endif
}
template <int by, class T, int W> INLINE Best<T, W> moved_up(Best<T, W> x, Best<T, W> first) {
  return {moved_up<by>(x.value, first.value), moved_up<by>(x.index, first.index)};
}
/* Inclusive prefix scan in a register: log2(W) steps. */
/* Each step combines with the lane `by` before, which holds the result of as many lanes:
 *     x         a    b    c     d
 *     by = 1    a    ab   bc    cd
 *     by = 2    a    ab   abc   abcd */
template <class Kind, int W, int by = 1, class V> INLINE V prefix(V x, V identity) {
  if constexpr (by >= W) return x;
  else return prefix<Kind, W, by * 2>(Kind::join(moved_up<by>(x, identity), x), identity);
}
template <class T, int W> INLINE Vec<T, W> last_lane(Vec<T, W> x) { return Vec<T, W>(lane(x, W - 1)); }
template <class T, int W> INLINE Best<T, W> last_lane(Best<T, W> x) { return {last_lane(x.value), last_lane(x.index)}; }
/* Bitwise equality: 0.0 and -0.0 differ. */
template <class T, int W> INLINE bool all_same(Vec<T, W> a, Vec<T, W> b) {
  return every(Vec<bool, W>((Bits<T, W>)((Bits<T, W>)a.v == (Bits<T, W>)b.v)));
}
template <class T, int W> INLINE bool all_same(Best<T, W> a, Best<T, W> b) { return every(a.index == b.index); }
/* Kinds that select one of two values: if no lane beats the carried value, the carried value is the result. */
template <class Kind> constexpr bool chooses = same_type<Kind, Max> || same_type<Kind, Min> || same_type<Kind, Latest<true>> || same_type<Kind, Latest<false>>;
/* Kinds whose order matters to a floating-point number: it is eager's, one lane after another. In another order the last
 * digits differ, and a partial result may overflow: max + max in (-max, max, max). */
template <class Kind, class T> constexpr bool in_order = is_float<T> && (same_type<Kind, Sum> || same_type<Kind, Prod>);
/* Scan along lanes; the last lane is carried to the next vector. */
template <class Kind, class T, int W, class V> struct ScanState {
  V identity = Kind::template identity<T, W>(), before = identity;
  METHOD V next(V x) {
    if constexpr (in_order<Kind, T>) {
      auto so_far = lane(before, 0);
      for (int j = 0; j < W; j++) {
        so_far = Kind::join(so_far, lane(x, j));
        x.v[j] = so_far.v[0];
      }
      before = V(so_far);
      return x;
    }
    if constexpr (chooses<Kind>) if (all_same(Kind::join(before, x), before)) return before;
    x = Kind::join(before, prefix<Kind, W>(x, identity));
    before = last_lane(x);
    return x;
  }
};

/* f(0), f(1), ..., unrolled: independent vectors, which hide the latency of each other. */
template <int count> struct Parts {};
template <int count, class F> INLINE void for_each_part(Parts<count>, F f) {
  if constexpr (count > 1) for_each_part(Parts<count - 1>{}, f);
  f(count - 1);
}
template <int count> constexpr int count_parts(Parts<count>) { return count; }
/* Unroll factor: as many vectors as a row has, at most `most`. */
constexpr int unroll_factor(i64 size, int width, int most) { return size >= most * width ? most : size < 2 * width ? 1 : size / width; }

/* Scratch buffer that is too large for the stack. */
template <class T> struct Row {
  T *start;
  /* 64 more bytes: a whole vector is accessed at the end of a row, which may begin at its last element. */
  METHOD Row(i64 size) : start((T *)__builtin_malloc(size * sizeof(T) + 64)) {
    if (!start) __builtin_trap();
  }
  METHOD ~Row() { __builtin_free(start); }
};

}  // namespace nb
#endif
