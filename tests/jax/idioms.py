"""How people write C++ in the code for a row: the table of idioms_test.

Each idiom is the body of a `rows` string, of one of the KINDS. It says the same
row by row, in lanes and under derivatives, or does not compile there: then the
line that the error must name ends with

    // lanes     it does not compile with lanes=True
    // slopes    it does not compile under derivatives="kernel"
    // both      it does under either, and not under both
    // lanes?    it may compile, to what is right, or not (so the others)

Several lines may have a mark, of which the compiler names one.
"""

import dataclasses
import re
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Idiom:
    """One way in which people write C++ in a loop over a row.

    Attributes:
      name: in a few words.
      code: the body of `rows`; numbers of x and w are in its `x` and `w`.
      before: `rows`' `before`.
      kind: which parameters it has, of KINDS.
      x: the range of the operands' elements, which are random.
      n: the size of a row of x, w and, unless it has `m`, of out.
      numpy: what it computes, of x (rows, n) of float64, or of x and w;
        without one, compiled row by row it is C++ itself.
      tolerance: how far results in float32 may be apart, beside their size.
      slope_tolerance: how far derivatives may be apart, beside the greatest.
    """

    name: str
    code: str
    before: str = ""
    kind: str = "x"
    x: tuple[float, float] = (0.3, 2.0)
    n: int = 6
    m: int | None = None
    numpy: Callable[..., object] | None = None
    tolerance: float = 2e-5
    slope_tolerance: float = 2e-3

    def marks(self, form: str) -> list[str]:
        """The lines that an error about `form`, "lanes" say, may name."""
        lines = (self.before + "\n" + self.code).splitlines()
        found = (re.search(r"(\S.*?) *//(.*)", line) for line in lines)
        return [
            match[1]
            for match in found
            if match and form in match[2].replace("?", "").split()
        ]

    def may_be_right(self, form: str) -> bool:
        """Whether it is not said that it does not compile."""
        return f"{form}?" in self.code + self.before or not self.marks(form)


# Kind -> the parameters of a string of `rows`.
KINDS = {
    "x": "x",
    "shared": "x, w",
    "attributes": "x, *, scale=1.5, k=3, flag=True, mode='mean', "
    "factors=(0.5, 2.0)",
    "two": "x",  # with a second result, `also`, of out's size
    "in place": "x",  # in whose memory out is
}

_EACH = "for (int64_t i = 0; i < x.size(); ++i) "


def each(name: str, expression: str, **options) -> Idiom:
    """out[i] is an expression of v, which is x[i]."""
    mark = re.search(" *//.*", expression)
    comment = mark[0] if mark else ""
    expression = expression.removesuffix(comment)
    code = f"{_EACH}{{\n  const A v = x[i];\n  out[i] = {expression};{comment}"
    return Idiom(name, code + "\n}", **options)


def fold(name: str, start: str, step: str, **options) -> Idiom:
    """out[0] is s, which starts as `start` and takes a step for each v."""
    code = f"A s = {start};\nfor (int64_t i = 0; i < x.size(); ++i) {{\n"
    code += f"  const A v = x[i];\n  {step}\n}}\nout[0] = s;"
    return Idiom(name, code, m=1, **options)


def _row(x, f):
    return np.stack([np.atleast_1d(f(row)) for row in x])


BOTH = (-2.0, 2.0)

IDIOMS = [
    # --- Bits -----------------------------------------------------------------
    Idiom(
        "the exponent by memcpy",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const T v = x[i];
          uint32_t bits;
          std::memcpy(&bits, &v, sizeof(bits));  // lanes slopes?
          out[i] = float(bits >> 23);
        }
        """,
        before="#include <cstring>",
        numpy=lambda x: np.float32(x).view(np.uint32) >> 23,
    ),
    Idiom(
        "the bits by a union",
        """
        union Both { T f; uint32_t u; };  // lanes slopes
        for (int64_t i = 0; i < x.size(); ++i) {
          Both both;  // lanes slopes
          both.f = x[i];
          out[i] = float((both.u >> 23) & 0xff) - 127;
        }
        """,
        numpy=lambda x: np.floor(np.log2(x)),
    ),
    Idiom(
        "the bits by a cast pointer",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          T v = x[i];
          const uint32_t bits = *(uint32_t*)&v;  // lanes slopes?
          out[i] = float(bits >> 23) - 127;
        }
        """,
        numpy=lambda x: np.floor(np.log2(x)),
    ),
    Idiom(
        "the fast inverse square root",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          T y = x[i];
          int32_t j = *reinterpret_cast<int32_t*>(&y);  // lanes slopes
          j = 0x5f3759df - (j >> 1);
          y = *reinterpret_cast<float*>(&j);
          out[i] = y * (1.5f - 0.5f * x[i] * y * y);
        }
        """,
        numpy=lambda x: 1 / np.sqrt(x),
        tolerance=3e-3,
    ),
    Idiom(
        "frexp and ldexp",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          int e;
          const A m = std::frexp(x[i], &e);  // lanes slopes?
          out[i] = std::ldexp(m * m, e);  // lanes slopes?
        }
        """,
        numpy=lambda x: np.ldexp(np.frexp(x)[0] ** 2, np.frexp(x)[1]),
    ),
    each("ldexp by a constant", "std::ldexp(v * v, 3)  // lanes?"),
    each("signbit as a number", "std::signbit(v) ? 1 : 2  // lanes", x=BOTH),
    Idiom(
        "memcpy of a row",
        """
        std::memcpy(&out[0], &x[0], x.size() * sizeof(T));  // lanes slopes?
        out[0] *= 2;
        """,
        before="#include <cstring>",
    ),
    Idiom(
        "memcpy by sizeof(float)",
        """
        float* const to = (float*)out.data();  // lanes slopes
        std::memcpy(to, x.data(), x.size() * sizeof(float));  // lanes slopes
        """,
        before="#include <cstring>",
        numpy=lambda x: x,
    ),
    Idiom(
        "memset to zero",
        """
        A sums[4];
        std::memset(sums, 0, sizeof(sums));  // lanes? slopes?
        for (int64_t i = 0; i < x.size(); ++i) sums[i % 4] += x[i];
        out[0] = sums[0] * sums[3];
        """,
        before="#include <cstring>",
        m=1,
    ),
    # --- References -----------------------------------------------------------
    Idiom(
        "a reference to a result that is assigned later",
        """
        out[0] = x[0];
        const auto& best = out[0];  // lanes?
        for (int64_t i = 1; i < x.size(); ++i)
          out[0] = std::max(best, A(x[i]) * 0.9f);
        out[1] = best;
        """,
        m=2,
        numpy=lambda x: np.maximum(
            x[:, :1], x[:, 1:].max(-1)[:, None] * 0.9
        ).repeat(2, 1),
    ),
    Idiom(
        "auto& in a range-for over a result",
        """
        int64_t i = 0;
        for (auto& y : out) y = 2 * x[i++];  // lanes?
        """,
        numpy=lambda x: 2 * x,
    ),
    Idiom(
        "T& of a result",
        """
        out[0] = 0;
        T& sum = out[0];  // lanes?
        for (auto v : x) sum += v * v;
        """,
        m=1,
        numpy=lambda x: (x * x).sum(-1, keepdims=True),
    ),
    Idiom(
        "auto&& and const auto& of operands",
        """
        A s = 0;
        for (const auto& v : x) s += v;
        for (auto&& v : x) s += v * v;
        const auto& first = x[0];
        out[0] = s * first;
        """,
        m=1,
        numpy=lambda x: (x + x * x).sum(-1, keepdims=True) * x[:, :1],
    ),
    Idiom(
        "a reference to a member",
        """
        struct State { A sum, most; } state = {0, A(x[0])};
        A& sum = state.sum;
        A& most = state.most;
        for (int64_t i = 0; i < x.size(); ++i) {
          sum += x[i];
          most = std::max(most, sum * x[i]);
        }
        out[0] = state.sum + state.most;
        """,
        m=1,
    ),
    Idiom(
        "a helper that returns const auto&",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = padded(x, i - 1) + padded(x, i + 1);
        """,
        before="""
        template <typename R>
        const auto& padded(const R& r, int64_t i) {
          return r[i < 0 ? 0 : i < r.size() ? i : r.size() - 1];  // lanes?
        }
        """,
        numpy=lambda x: np.c_[x[:, :1], x[:, :-1]] + np.c_[x[:, 1:], x[:, -1:]],
    ),
    Idiom(
        "a lambda that returns const auto&",
        """
        const auto at = [&](int64_t i) -> const auto& {
          return x[i < 0 ? 0 : i];  // lanes?
        };
        for (int64_t i = 0; i < x.size(); ++i) out[i] = at(i - 2) * at(i);
        """,
        numpy=lambda x: x * np.c_[x[:, :1], x[:, :1], x[:, :-2]],
    ),
    Idiom(
        "a helper that returns decltype(auto) of a result",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          cell_of(out, i) = x[i];
          cell_of(out, i) *= 3;
        }
        """,
        before="""
        template <typename R>
        decltype(auto) cell_of(R& r, int64_t i) { return r[i]; }
        """,
        numpy=lambda x: 3 * x,
    ),
    Idiom(
        "a helper that takes T& to write",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          out[i] = x[i];
          doubled_in_place(out[i]);  // lanes?
        }
        """,
        before="""
        template <typename N> void doubled_in_place(N& v) { v = v + v; }
        """,
        numpy=lambda x: 2 * x,
    ),
    Idiom(
        "std::tie",
        """
        A low = 0, high = 0;
        for (int64_t i = 0; i < x.size(); ++i)
          std::tie(low, high) = std::make_tuple(high, A(low + x[i] * x[i]));
        out[0] = low - 2 * high;
        """,
        before="#include <tuple>",
        m=1,
    ),
    Idiom(
        "structured bindings by reference",
        """
        std::pair<A, A> both{A(0), A(1)};
        auto& [sum, product] = both;
        for (int64_t i = 0; i < x.size(); ++i) sum += x[i], product *= x[i];
        out[0] = both.first + both.second;
        """,
        before="#include <utility>",
        m=1,
        numpy=lambda x: (x.sum(-1) + x.prod(-1))[:, None],
    ),
    Idiom(
        "std::ref in a container",
        """
        A a = x[0], b = x[1];
        std::reference_wrapper<A> both[] = {std::ref(a), std::ref(b)};
        for (A& v : both) v = v * v;
        out[0] = a - b;
        """,
        before="#include <functional>",
        m=1,
        numpy=lambda x: (x[:, 0] ** 2 - x[:, 1] ** 2)[:, None],
    ),
    # --- Pointers -------------------------------------------------------------
    Idiom(
        "a pointer to a table",
        """
        A table[8];
        A* p = &table[0];  // lanes?
        for (int64_t i = 0; i < x.size(); ++i) *p++ = x[i] * x[i];
        while (p != table) *--p *= 2;
        out[0] = table[0] + table[5];
        """,
        m=1,
        numpy=lambda x: 2 * (x[:, :1] ** 2 + x[:, 5:] ** 2),
    ),
    Idiom(
        "walking over an operand by pointers",
        """
        A s = 0;
        const T* end = x.data() + x.size();
        for (const T* p = x.data(); p < end; ++p) s = s * 0.5f + *p;
        out[0] = s;
        """,
        m=1,
    ),
    Idiom(
        "walking over a result by a pointer",
        """
        T* p = out.data();
        for (auto v : x) *p++ = v * v;
        """,
        numpy=lambda x: x * x,
    ),
    Idiom(
        "&x[0]",
        """
        const T* p = &x[0];
        out[0] = p[1] * p[2];
        """,
        m=1,
        numpy=lambda x: x[:, 1:2] * x[:, 2:3],
    ),
    Idiom(
        "a result by an out parameter",
        """
        A s, d;
        sum_and_difference(A(x[0]), A(x[1]), &s, &d);  // lanes slopes
        out[0] = s * d;
        """,
        before="""
        template <typename N>
        void sum_and_difference(N a, N b, N* s, N* d) {
          *s = a + b, *d = a - b;
        }
        """,
        m=1,
        numpy=lambda x: x[:, :1] ** 2 - x[:, 1:2] ** 2,
    ),
    Idiom(
        "two buffers exchanged by their pointers",
        """
        A a[3] = {x[0], x[1], x[2]}, b[3];
        A *from = a, *to = b;
        for (int step = 0; step < 3; ++step) {
          for (int i = 0; i < 3; ++i) to[i] = from[i] + from[(i + 1) % 3] / 2;
          std::swap(from, to);
        }
        for (int i = 0; i < 3; ++i) out[i] = from[i];
        """,
        m=3,
    ),
    # --- Structs --------------------------------------------------------------
    Idiom(
        "a struct with operators",
        """
        Point<A> p(x[0], x[1]);
        for (int64_t i = 2; i + 1 < x.size(); i += 2)
          p = p + Point<A>(x[i], x[i + 1]) * 0.5f;
        out[0] = p.dot(p);
        """,
        before="""
        template <typename N>
        struct Point {
          N a, b;
          Point(N a, N b) : a(a), b(b) {}
          Point operator+(const Point& o) const { return {a + o.a, b + o.b}; }
          Point operator*(N s) const { return {a * s, b * s}; }
          N dot(const Point& o) const { return a * o.a + b * o.b; }
        };
        """,
        m=1,
        numpy=lambda x: (
            (x[:, 0] + (x[:, 2] + x[:, 4]) / 2) ** 2
            + (x[:, 1] + (x[:, 3] + x[:, 5]) / 2) ** 2
        )[:, None],
    ),
    Idiom(
        "an aggregate, by designated order",
        """
        struct Pair { A key, value; int64_t at; };
        Pair best = {x[0], x[1], 0}, zero{};
        best.value += zero.key;
        out[0] = best.key * best.value + best.at;
        """,
        m=1,
        numpy=lambda x: x[:, :1] * x[:, 1:2],
    ),
    Idiom(
        "a class with an inherited state",
        """
        Smoother<A> s;
        for (auto v : x) s.add(v);
        out[0] = s.get();
        """,
        before="""
        template <typename N> struct Held { N held = N(0); };
        template <typename N> class Smoother : private Held<N> {
         public:
          void add(const N& v) { this->held = this->held * 0.5f + v; }
          N get() const { return this->held; }
        };
        """,
        m=1,
    ),
    Idiom(
        "virtual functions",
        """
        struct Step { virtual A of(A v) const = 0; virtual ~Step() {} };
        struct Square : Step { A of(A v) const override { return v * v; } };
        struct Half : Step { A of(A v) const override { return v / 2; } };
        Square square; Half half;
        const Step* steps[] = {&square, &half};
        A v = x[0];
        for (const Step* step : steps) v = step->of(v);
        out[0] = v;
        """,
        m=1,
        numpy=lambda x: x[:, :1] ** 2 / 2,
    ),
    # --- Containers -----------------------------------------------------------
    Idiom(
        "std::pair, std::tuple and std::array",
        """
        const std::pair<A, int> a{x[0], 2};
        const std::tuple<A, A> b{x[1], x[2]};
        std::array<A, 3> c = {a.first, std::get<0>(b), std::get<1>(b)};
        const auto [p, q, r] = c;
        out[0] = p * a.second + q * r;
        """,
        before="#include <array>\n#include <tuple>",
        m=1,
        numpy=lambda x: 2 * x[:, :1] + x[:, 1:2] * x[:, 2:3],
    ),
    Idiom(
        "a vector that grows",
        """
        std::vector<A> v;
        for (int64_t i = 0; i < x.size(); ++i) {
          v.push_back(x[i]);
          v.emplace_back(x[i] * x[i]);
          v.insert(v.begin(), v.back());
        }
        A s = 0;
        for (size_t i = 0; i < v.size(); ++i) s += v[i] * (i + 1);
        out[0] = s + v.front();
        """,
        before="#include <vector>",
        m=1,
    ),
    Idiom(
        "a deque as a window",
        """
        std::deque<A> window;
        A s = 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          window.push_back(x[i]), s += x[i];
          if (window.size() > 3) s -= window.front(), window.pop_front();
          out[i] = s / window.size();
        }
        """,
        before="#include <deque>",
    ),
    Idiom(
        "a map from numbers to numbers",
        """
        std::map<A, int64_t> order;  // lanes
        for (int64_t i = 0; i < x.size(); ++i) order[x[i]] = i;  // lanes
        int64_t j = 0;
        for (const auto& [v, i] : order) out[j++] = v + i;  // lanes
        """,
        before="#include <map>",
        numpy=lambda x: np.sort(x, -1) + np.argsort(x, -1),
    ),
    Idiom(
        "a map from integers to numbers",
        """
        std::map<int64_t, A> sums;
        for (int64_t i = 0; i < x.size(); ++i) sums[i % 3] += x[i];
        out[0] = sums[0] * sums[1] + sums.count(7);
        """,
        before="#include <map>",
        m=1,
        numpy=lambda x: (x[:, :1] + x[:, 3:4]) * (x[:, 1:2] + x[:, 4:5]),
    ),
    Idiom(
        "a matrix as a vector of vectors",
        """
        std::vector<std::vector<A>> m(2, std::vector<A>(3));
        for (int i = 0; i < 6; ++i) m[i / 3][i % 3] = x[i];
        m.resize(3);
        m[2] = m[0];
        out[0] = m[2][1] * m[1][2];
        """,
        before="#include <vector>",
        m=1,
        numpy=lambda x: x[:, 1:2] * x[:, 5:6],
    ),
    Idiom(
        "complex numbers",
        """
        std::complex<A> z(x[0], x[1]);  // slopes?
        z = z * z + std::complex<A>(x[2], 0);  // slopes?
        out[0] = z.real() + 2 * z.imag();
        """,
        before="#include <complex>",
        m=1,
        numpy=lambda x: (
            (x[:, 0] ** 2 - x[:, 1] ** 2 + x[:, 2])[:, None]
            + 4 * x[:, :1] * x[:, 1:2]
        ),
    ),
    Idiom(
        "std::optional",
        """
        std::optional<A> last;
        A s = 0;
        for (auto v : x) {
          if (last) s += *last * v;
          last = v;
        }
        out[0] = s;
        """,
        before="#include <optional>",
        m=1,
        numpy=lambda x: (x[:, 1:] * x[:, :-1]).sum(-1)[:, None],
    ),
    # --- Memory ---------------------------------------------------------------
    Idiom(
        "malloc",
        """
        A* v = (A*)malloc(x.size() * sizeof(A));  // lanes? slopes?
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i] * x[i];
        for (int64_t i = 0; i < x.size(); ++i) out[i] = v[x.size() - 1 - i];
        free(v);
        """,
        before="#include <cstdlib>",
        numpy=lambda x: x[:, ::-1] ** 2,
    ),
    Idiom(
        "calloc, whose zeros are read",
        """
        A* s = static_cast<A*>(calloc(3, sizeof(A)));  // lanes? slopes?
        for (int64_t i = 0; i < x.size(); ++i) s[i % 3] += x[i];
        out[0] = s[0] * s[1] - s[2];
        free(s);
        """,
        before="#include <cstdlib>",
        m=1,
    ),
    Idiom(
        "realloc",
        """
        A* v = (A*)std::malloc(sizeof(A));  // lanes? slopes?
        for (int64_t i = 0; i < x.size(); ++i) {
          v = (A*)std::realloc(v, (i + 1) * sizeof(A));  // lanes? slopes?
          v[i] = x[i];
        }
        out[0] = v[0] * v[x.size() - 1];
        std::free(v);
        """,
        before="#include <cstdlib>",
        m=1,
        numpy=lambda x: x[:, :1] * x[:, -1:],
    ),
    Idiom(
        "alloca",
        """
        A* v = (A*)alloca(x.size() * sizeof(A));  // lanes? slopes?
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i];
        out[0] = v[0] * v[x.size() - 1];
        """,
        before="#include <alloca.h>",
        m=1,
        numpy=lambda x: x[:, :1] * x[:, -1:],
    ),
    Idiom(
        "an array of variable length",
        """
        A v[x.size()];
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i] / 2;
        out[0] = v[0] * v[x.size() - 1];
        """,
        m=1,
        numpy=lambda x: x[:, :1] * x[:, -1:] / 4,
    ),
    Idiom(
        "new[] and delete[]",
        """
        A* v = new A[x.size()]();
        for (int64_t i = 0; i < x.size(); i += 2) v[i] = x[i];
        for (int64_t i = 0; i < x.size(); ++i) out[i] = v[i] + 1;
        delete[] v;
        """,
        numpy=lambda x: x * (np.arange(6) % 2 == 0) + 1,
    ),
    Idiom(
        "unique_ptr to an array",
        """
        auto v = std::make_unique<A[]>(x.size());
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i] * i;
        out[0] = v[1] + v[5] * v[0];
        """,
        before="#include <memory>",
        m=1,
        numpy=lambda x: x[:, 1:2],
    ),
    Idiom(
        "a vector of bytes as memory",
        """
        std::vector<char> bytes(x.size() * sizeof(A) + 1);  // lanes slopes
        A* v = reinterpret_cast<A*>(bytes.data());
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i];
        out[0] = v[1] - v[5];
        """,
        before="#include <vector>",
        m=1,
        numpy=lambda x: x[:, 1:2] - x[:, 5:],
    ),
    Idiom(
        "static memory kept between rows",
        """
        static thread_local std::vector<A> kept;  // lanes slopes
        kept.assign(x.begin(), x.end());
        out[0] = kept[0] * kept[x.size() - 1];
        """,
        before="#include <vector>",
        m=1,
        numpy=lambda x: x[:, :1] * x[:, -1:],
    ),
    Idiom(
        "a large local array",
        """
        A d[100][100];
        for (int i = 0; i < 100; ++i)
          for (int j = 0; j < 100; ++j)
            d[i][j] = i == 0 || j == 0 ? A(0) : A(0.5f * d[i - 1][j - 1]);
        d[99][99] += x[0];
        out[0] = d[99][99] * d[99][99];
        """,
        m=1,
        numpy=lambda x: x[:, :1] ** 2,
    ),
    # --- Functions ------------------------------------------------------------
    Idiom(
        "lambdas that capture",
        """
        A s = 0;
        const A first = x[0];
        auto add = [&s](A v) { s += v; };
        auto scaled = [first](A v) { return A(first * v); };
        auto counter = [n = 0]() mutable { return ++n; };
        for (auto v : x) add(scaled(v) * counter());
        out[0] = s;
        """,
        m=1,
        numpy=lambda x: (x[:, :1] * x * np.arange(1, 7)).sum(-1)[:, None],
    ),
    Idiom(
        "a lambda without a return type, with two returns",
        """
        auto kernel = [&](int64_t i) {
          if (i % 2) return x[i] * x[i];  // slopes?
          return x[i] + 1;  // slopes?
        };
        for (int64_t i = 0; i < x.size(); ++i) out[i] = kernel(i);
        """,
        numpy=lambda x: np.where(np.arange(6) % 2, x * x, x + 1),
    ),
    Idiom(
        "std::function",
        """
        std::function<A(A)> f = [](A v) { return A(v * v); };
        std::function<A(A)> g = [f](A v) { return A(f(v) + v); };
        for (int64_t i = 0; i < x.size(); ++i) out[i] = g(x[i]);
        """,
        before="#include <functional>",
        numpy=lambda x: x * x + x,
    ),
    Idiom(
        "a pointer to a function of std::",
        """
        A (*const f)(A) = std::exp;  // lanes? slopes?
        out[0] = f(x[0]);
        """,
        m=1,
        numpy=lambda x: np.exp(x[:, :1]),
    ),
    Idiom(
        "recursion",
        """
        std::function<A(int64_t, int64_t)> sum = [&](int64_t a, int64_t b) {
          if (b - a == 1) return A(x[a] * x[a]);
          const int64_t half = (a + b) / 2;
          return A(sum(a, half) + sum(half, b) * 0.5f);
        };
        out[0] = sum(0, x.size());
        """,
        before="#include <functional>",
        m=1,
    ),
    Idiom(
        "a recursive template",
        """
        A p[6];
        for (int i = 0; i < 6; ++i) p[i] = x[i];
        out[0] = Power<5>::of(p[0]) + tree(p, 6);
        """,
        before="""
        template <int k> struct Power {
          template <typename N> static N of(const N& v) {
            return v * Power<k - 1>::of(v);
          }
        };
        template <> struct Power<0> {
          template <typename N> static N of(const N&) { return N(1); }
        };
        template <typename N> N tree(const N* p, int n) {
          return n == 1 ? p[0] : N(tree(p, n / 2) * tree(p + n / 2, n - n / 2));
        }
        """,
        m=1,
        numpy=lambda x: x[:, :1] ** 5 + x.prod(-1)[:, None],
    ),
    Idiom(
        "a functor and a template that takes it",
        """
        out[0] = folded(x, Plus(), A(0)) * folded(x, Times{2}, A(1));
        """,
        before="""
        struct Plus {
          template <typename N> N operator()(N a, N b) const { return a + b; }
        };
        struct Times {
          float by;
          template <typename N>
          N operator()(N a, N b) const { return a * b / by; }
        };
        template <typename R, typename F, typename N>
        N folded(const R& row, F f, N s) {
          for (int64_t i = 0; i < row.size(); ++i) s = f(s, N(row[i]));
          return s;
        }
        """,
        m=1,
        numpy=lambda x: (x.sum(-1) * (x / 2).prod(-1))[:, None],
    ),
    Idiom(
        "a function of double alone",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = logistic(x[i]);  // lanes slopes
        """,
        before="double logistic(double v) { return 1 / (1 + std::exp(-v)); }",
        numpy=lambda x: 1 / (1 + np.exp(-x)),
    ),
    Idiom(
        "overloads for float and double",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = eps_of(x[i]) + x[i];  // lanes slopes
        """,
        before="""
        inline float eps_of(float) { return 0.25f; }
        inline double eps_of(double) { return 0.5; }
        """,
        numpy=lambda x: x + 0.25,
    ),
    Idiom(
        "an overload for float beside a template",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = weight_of(A(x[i])) * x[i];  // lanes slopes
        """,
        before="""
        template <typename N> N weight_of(N) { return N(2); }
        inline float weight_of(float) { return 0.25f; }  // lanes slopes
        """,
        numpy=lambda x: x / 4,
    ),
    Idiom(
        "a template specialized for float",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = Step<A>::size * x[i];  // lanes slopes
        """,
        before="""
        template <typename N> struct Step { static constexpr int size = 2; };
        template <> struct Step<float> {
          static constexpr int size = 3;
        };
        """,
        numpy=lambda x: 3 * x,
    ),
    Idiom(
        "enable_if for floating point",
        """
        out[0] = shape_of(A(x[0]));
        """,
        before="""
        #include <type_traits>
        template <typename N>
        std::enable_if_t<std::is_floating_point_v<N>, N>  // lanes slopes
        shape_of(N v) { return v; }
        template <typename N>
        std::enable_if_t<!std::is_floating_point_v<N>, N>  // lanes slopes
        shape_of(N v) { return -v; }
        """,
        m=1,
        numpy=lambda x: x[:, :1],
    ),
    # --- Questions about the type ---------------------------------------------
    Idiom(
        "is_same_v<T, float>",
        """
        A by = 2;
        if constexpr (std::is_same_v<T, float>) by = 3;  // lanes slopes
        out[0] = x[0] * by;
        """,
        before="#include <type_traits>",
        m=1,
        numpy=lambda x: x[:, :1] * 3,
    ),
    Idiom(
        "is_same of decltype",
        """
        using V = std::decay_t<decltype(x[0])>;
        const int by = std::is_same<V, float>::value ? 2 : 3;  // lanes slopes
        out[0] = x[0] * by;
        """,
        before="#include <type_traits>",
        m=1,
        numpy=lambda x: x[:, :1] * 2,
    ),
    Idiom(
        "is_floating_point_v<A>",
        """
        const int by = std::is_floating_point_v<A> ? 2 : 3;  // lanes slopes
        out[0] = x[0] * by;
        """,
        before="#include <type_traits>",
        m=1,
        numpy=lambda x: x[:, :1] * 2,
    ),
    Idiom(
        "sizeof(T) == 4",
        """
        const A by = sizeof(T) == 4 ? 2 : 3;  // lanes slopes
        out[0] = x[0] * by;
        """,
        m=1,
        numpy=lambda x: x[:, :1] * 2,
    ),
    Idiom(
        "sizeof(out[0])",
        """
        out[0] = x[0] * float(sizeof(x[0]));  // lanes slopes
        """,
        m=1,
        numpy=lambda x: x[:, :1] * 4,
    ),
    Idiom(
        "the length of an array by sizeof",
        """
        const A taps[] = {x[0], x[1], x[2]};
        A s = 0;
        for (size_t i = 0; i < sizeof(taps) / sizeof(taps[0]); ++i)
          s += taps[i];
        out[0] = s * s;
        """,
        m=1,
        numpy=lambda x: x[:, :3].sum(-1)[:, None] ** 2,
    ),
    Idiom(
        "numeric_limits<T>::infinity()",
        """
        A best = -std::numeric_limits<T>::infinity();  // lanes? slopes?
        for (auto v : x) best = std::max(best, A(v * v));
        out[0] = best;
        """,
        before="#include <limits>",
        m=1,
        numpy=lambda x: (x * x).max(-1)[:, None],
    ),
    Idiom(
        "numeric_limits<A>::epsilon() and max()",
        """
        const A eps = std::numeric_limits<A>::epsilon();  // lanes? slopes?
        A least = std::numeric_limits<A>::max();  // lanes? slopes?
        for (auto v : x) least = std::min(least, A(v));
        out[0] = least / (least + 1e6f * eps);
        """,
        before="#include <limits>",
        m=1,
        numpy=lambda x: (
            x.min(-1) / (x.min(-1) + 1e6 * np.finfo(np.float32).eps)
        )[:, None],
    ),
    Idiom(
        "numeric_limits<T>::digits",
        """
        out[0] = x[0] * std::numeric_limits<T>::digits;  // lanes? slopes?
        """,
        before="#include <limits>",
        m=1,
        numpy=lambda x: x[:, :1] * 24,
    ),
    Idiom(
        "FLT_MAX and HUGE_VAL",
        """
        A least = FLT_MAX, most = -HUGE_VALF;
        for (auto v : x) least = std::min<A>(least, v);  // lanes?
        for (auto v : x) most = std::max<A>(most, v);  // lanes?
        out[0] = most - least;
        """,
        before="#include <cfloat>",
        m=1,
        numpy=lambda x: np.ptp(x, -1)[:, None],
    ),
    # --- Tables and constants -------------------------------------------------
    Idiom(
        "a static const table of floats",
        """
        static const float taps[] = {0.25f, 0.5f, 0.25f};
        for (int64_t i = 0; i < x.size(); ++i) {
          A s = 0;
          for (int64_t j = i - 1; j < i + 2; ++j)
            if (j >= 0 && j < x.size()) s += taps[j - i + 1] * x[j];
          out[i] = s;
        }
        """,
        numpy=lambda x: (
            0.5 * x
            + 0.25 * np.c_[x[:, 1:], 0 * x[:, 0]]
            + 0.25 * np.c_[0 * x[:, 0], x[:, :-1]]
        ),
    ),
    Idiom(
        "a static const table of A",
        """
        static const A powers[] = {1, 2, 4, 8, 16, 32};
        for (int64_t i = 0; i < x.size(); ++i) out[i] = powers[i] * x[i];
        """,
        numpy=lambda x: x * 2.0 ** np.arange(6),
    ),
    Idiom(
        "constexpr A",
        """
        constexpr A two = 2;  // lanes? slopes?
        out[0] = two * x[0];
        """,
        m=1,
        numpy=lambda x: 2 * x[:, :1],
    ),
    Idiom(
        "constexpr float and a template variable",
        """
        constexpr float half = 0.5f;
        out[0] = half * x[0] * third<float>;
        """,
        before="""
        template <typename N> constexpr N third = N(1) / N(3);
        """,
        m=1,
        numpy=lambda x: x[:, :1] / 6,
    ),
    Idiom(
        "a table that depends on the index of a value",
        """
        const float table[] = {0, 1, 4, 9};
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = x[i] * table[int(x[i])];  // lanes slopes
        """,
        numpy=lambda x: x * np.floor(x) ** 2,
    ),
    Idiom(
        "an interpolation in the row, by kit::value",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const int j = int(kit::value(x[i]));  // lanes
          out[i] = x[j] + (x[i] - j) * (x[j + 1] - x[j]);
        }
        """,
        numpy=lambda x: _row(x, lambda r: np.interp(r, np.arange(6), r)),
    ),
    each("a double constant", "v * 0.1 + M_PI  // lanes", tolerance=1e-6),
    each(
        "a threshold of a double constant",
        "kit::where(v >= 0.7, 10 * v, v)  // lanes? slopes?",
        x=(0.5, 0.9),
        numpy=lambda x: np.where(x >= 0.7, 10 * x, x),
    ),
    Idiom(
        "a threshold that float and double round apart",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const A v = x[i] * 0 + 0.7f;
          out[i] = kit::where(v >= 0.7, 10 * x[i], x[i]);  // lanes
        }
        """,
    ),
    each(
        "a double constant that float does not have",
        "v * 1e300 * 1e-300  // lanes? slopes?",
    ),
    each("an integer constant that divides", "v * (1 / 2) + v * (3 / 2)"),
    each(
        "an integer that float does not have",
        "v * 16777217 - v * 16777216",
        numpy=lambda x: 0 * x,
    ),
    each("long double", "(long double)v * 3.0L  // lanes slopes"),
    fold(
        "a double accumulator",
        "0",
        "double d = s; d += v; s = d;  // lanes slopes",
    ),
    Idiom(
        "double sum = 0",
        """
        double sum = 0;
        for (auto v : x) sum += v;  // lanes slopes
        out[0] = sum / x.size();
        """,
        m=1,
        numpy=lambda x: x.mean(-1)[:, None],
    ),
    # --- Jumps ----------------------------------------------------------------
    Idiom(
        "an early return",
        """
        out[0] = 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          out[0] = x[i] * x[i];
          if (x[i] > 1) return;  // lanes
        }
        """,
        m=1,
    ),
    Idiom(
        "break and continue",
        """
        A s = 0;
        for (auto v : x) {
          if (v < 0.5f) continue;  // lanes
          s += v;
          if (s > 3) break;  // lanes
        }
        out[0] = s;
        """,
        m=1,
    ),
    Idiom(
        "goto out of two loops",
        """
        A s = 0;
        for (int64_t i = 0; i < x.size(); ++i)
          for (int64_t j = 0; j < i; ++j) {
            s += x[i] * x[j];
            if (s > 3) goto done;  // lanes
          }
        done:
        out[0] = s;
        """,
        m=1,
    ),
    Idiom(
        "break and continue on indices",
        """
        A s = 0;
        for (int64_t i = 0;; ++i) {
          if (i == x.size()) break;
          if (i % 2) continue;
          s += x[i] * i;
        }
        if (x.size() < 3) return;
        out[0] = s;
        """,
        m=1,
        numpy=lambda x: 2 * x[:, 2:3] + 4 * x[:, 4:5],
    ),
    Idiom(
        "switch on an integer",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          switch (i % 3) {
            case 0: out[i] = x[i]; break;
            case 1: out[i] = -x[i]; [[fallthrough]];
            default: out[i] = x[i] * x[i];
          }
        }
        """,
        numpy=lambda x: np.where(np.arange(6) % 3 == 0, x, x * x),
    ),
    Idiom(
        "switch on a value",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          switch ((int)x[i]) {  // lanes slopes
            case 0: out[i] = x[i]; break;
            case 1: out[i] = 2; break;
            default: out[i] = 3;
          }
        """,
        numpy=lambda x: np.where(x < 1, x, 2),
    ),
    Idiom(
        "while until it converges",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          A r = x[i], before = 0;
          while (std::abs(r - before) > 1e-6f * r) {  // lanes
            before = r;
            r = 0.5f * (r + x[i] / r);
          }
          out[i] = r;
        }
        """,
        numpy=np.sqrt,
    ),
    Idiom(
        "do while with a most",
        """
        A r = 1;
        int left = 9;
        do {
          r = 0.5f * (r + x[0] / r);
        } while (--left && r * r - x[0] > 1e-7f);  // lanes
        out[0] = r;
        """,
        m=1,
        numpy=lambda x: np.sqrt(x[:, :1]),
    ),
    each("a ternary on data", "v > 1 ? v * v : v  // lanes slopes?"),
    each("a ternary on data, of A", "v > 1 ? A(v * v) : v  // lanes"),
    each("a chain of ternaries", "v < 1 ? 1 : v < 1.5f ? 2 : 3  // lanes"),
    Idiom(
        "a short circuit",
        """
        A s = 0;
        for (int64_t i = 0; i < x.size(); ++i)
          if (i > 0 && x[i - 1] > 1 && !(x[i] < 1)) s += x[i];  // lanes
        out[0] = s;
        """,
        m=1,
        numpy=lambda x: np.where(
            (x[:, :-1] > 1) & (x[:, 1:] >= 1), x[:, 1:], 0
        ).sum(-1)[:, None],
    ),
    # --- Algorithms -----------------------------------------------------------
    Idiom(
        "std::swap of numbers",
        """
        A a = x[0], b = x[1];
        std::swap(a, b);
        out[0] = a, out[1] = b * b;
        std::swap(out[0], out[1]);  // lanes?
        """,
        m=2,
        numpy=lambda x: np.c_[x[:, 0] ** 2, x[:, 1]],
    ),
    Idiom(
        "std::sort",
        """
        std::vector<A> v(x.size());
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i];
        std::sort(v.begin(), v.end());  // lanes
        for (int64_t i = 0; i < x.size(); ++i) out[i] = v[i];
        """,
        before="#include <algorithm>\n#include <vector>",
        numpy=lambda x: np.sort(x, -1),
    ),
    Idiom(
        "a sort of indices by their values",
        """
        std::vector<int64_t> at(x.size());
        std::iota(at.begin(), at.end(), 0);
        const auto is_first = [&](int64_t i, int64_t j) {
          return x[i] > x[j];  // lanes
        };
        std::stable_sort(at.begin(), at.end(), is_first);  // lanes
        for (int64_t i = 0; i < x.size(); ++i) out[i] = x[at[i]] * at[i];
        """,
        before="#include <algorithm>\n#include <numeric>\n#include <vector>",
        numpy=lambda x: -np.sort(-x, -1) * np.argsort(-x, -1),
    ),
    Idiom(
        "the median by nth_element",
        """
        A v[5];
        for (int i = 0; i < 5; ++i) v[i] = x[i];
        std::nth_element(v, v + 2, v + 5);  // lanes
        out[0] = v[2];
        """,
        before="#include <algorithm>",
        m=1,
        numpy=lambda x: np.median(x[:, :5], -1)[:, None],
    ),
    Idiom(
        "an insertion sort by hand",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          int64_t j = i;
          for (; j > 0 && out[j - 1] > x[i]; --j) out[j] = out[j - 1];  // lanes
          out[j] = x[i];
        }
        """,
        numpy=lambda x: np.sort(x, -1),
    ),
    Idiom(
        "a sorting network of min and max",
        """
        A a = x[0], b = x[1], c = x[2], t;
        t = std::min(a, b), b = std::max(a, b), a = t;
        t = std::min(b, c), c = std::max(b, c), b = t;
        t = std::min(a, b), b = std::max(a, b), a = t;
        out[0] = a, out[1] = b, out[2] = c;
        """,
        m=3,
        numpy=lambda x: np.sort(x[:, :3], -1),
    ),
    Idiom(
        "accumulate, inner_product, transform, partial_sum",
        """
        std::vector<A> v(x.size()), u(x.size());
        for (int64_t i = 0; i < x.size(); ++i) v[i] = x[i];
        std::partial_sum(v.begin(), v.end(), u.begin());
        const auto square = [](A a) { return A(a * a); };
        std::transform(u.begin(), u.end(), u.begin(), square);
        out[0] = std::accumulate(u.begin(), u.end(), A(0)) +
                 std::inner_product(u.begin(), u.end(), v.begin(), A(0));
        """,
        before="#include <algorithm>\n#include <numeric>\n#include <vector>",
        m=1,
        numpy=lambda x: (np.cumsum(x, -1) ** 2 * (1 + x)).sum(-1)[:, None],
    ),
    Idiom(
        "accumulate over iterators of the row",
        """
        out[0] = std::accumulate(x.begin(), x.end(), A(0));  // lanes?
        """,
        before="#include <numeric>",
        m=1,
        numpy=lambda x: x.sum(-1)[:, None],
    ),
    Idiom(
        "accumulate from 0, an int",
        """
        std::vector<A> v{x[0], x[1], x[2]};
        out[0] = x[0] + std::accumulate(v.begin(), v.end(), 0);  // lanes slopes
        """,
        before="#include <numeric>\n#include <vector>",
        m=1,
        numpy=lambda x: (
            x[:, :1]
            + np.floor(np.floor(np.floor(x[:, :1]) + x[:, 1:2]) + x[:, 2:3])
        ),
    ),
    Idiom(
        "max_element and its place",
        """
        A v[6];
        for (int i = 0; i < 6; ++i) v[i] = x[i];
        A* most = std::max_element(v, v + 6);  // lanes
        out[0] = *most * (most - v);
        """,
        before="#include <algorithm>",
        m=1,
        numpy=lambda x: x.max(-1)[:, None] * x.argmax(-1)[:, None],
    ),
    Idiom(
        "minmax, max of a list, clamp",
        """
        const A a = x[0], b = x[1], c = x[2];
        const auto [low, high] = std::minmax({a, b, c});  // lanes?
        const A most = std::max({A(x[3]), A(x[4]), A(x[5])});  // lanes?
        const A clamped = std::clamp(a, A(0.5f), A(1.5f));  // lanes?
        out[0] = most * clamped + low - 2 * high;
        """,
        before="#include <algorithm>",
        m=1,
        numpy=lambda x: (
            x[:, 3:].max(-1) * np.clip(x[:, 0], 0.5, 1.5)
            + x[:, :3].min(-1)
            - 2 * x[:, :3].max(-1)
        )[:, None],
    ),
    Idiom(
        "count_if and any_of",
        """
        const auto is_great = [](const A& v) { return v > 1; };  // lanes
        A v[6];
        for (int i = 0; i < 6; ++i) v[i] = x[i];
        out[0] = x[0] * std::count_if(v, v + 6, is_great);  // lanes
        """,
        before="#include <algorithm>",
        m=1,
        numpy=lambda x: x[:, :1] * (x > 1).sum(-1)[:, None],
    ),
    Idiom(
        "reverse, rotate, fill and copy",
        """
        A v[6];
        std::fill(v, v + 6, A(1));
        for (int i = 0; i < 5; ++i) v[i] *= x[i];
        std::reverse(v, v + 6);
        std::rotate(v, v + 2, v + 6);
        A u[6];
        std::copy(v, v + 6, u);
        for (int i = 0; i < 6; ++i) out[i] = u[i];
        """,
        before="#include <algorithm>",
        numpy=lambda x: np.roll(
            np.c_[x[:, :5], 1 + 0 * x[:, 0]][:, ::-1], -2, 1
        ),
    ),
    # --- Functions of numbers -------------------------------------------------
    each("hypot and atan2", "std::hypot(v, A(x[0])) + std::atan2(v, A(2))"),
    each("fma", "std::fma(v, v, A(1))", numpy=lambda x: x * x + 1),
    each("fmod", "std::fmod(v, A(0.7f)) * v"),
    each("remainder", "std::remainder(v, 0.7f) * v  // lanes slopes"),
    each(
        "round, floor, trunc",
        "std::round(v) + std::floor(v) * v + std::trunc(3 * v)",
        x=BOTH,
    ),
    each(
        "lrint and lround",
        "v * std::lrint(v) + std::lround(v)  // lanes",
        x=BOTH,
    ),
    each(
        "pow with integers",
        "std::pow(v, 3) + std::pow(v, 2) + std::pow(v, -1)  // lanes",
        x=(-2, -0.3),
    ),
    each("pow with a float", "std::pow(v, 2.5f) + std::pow(2.0f, v)"),
    each("sqrtf and expf of C", "sqrtf(v) + expf(v)  // lanes slopes"),
    each(
        "fabs, fmax, fmin, copysign",
        "std::fmax(std::fabs(v), A(1)) * std::copysign(A(2), v) + "
        "std::fmin(v, A(0.5f))",
        x=BOTH,
    ),
    each(
        "unqualified functions", "exp(v) + sqrt(v) + fabs(v)  // lanes? slopes?"
    ),
    each(
        "abs without std::",
        "std::abs(v) * abs(A(v))  // lanes? slopes?",
        x=BOTH,
    ),
    each(
        "isnan, isinf, isfinite",
        "std::isnan(v) || !std::isfinite(v) ? 0 : v  // lanes",
    ),
    # --- Casts ----------------------------------------------------------------
    each(
        "static_cast<int>", "v - static_cast<int>(v)  // lanes slopes", x=BOTH
    ),
    each("(int)x and int(x)", "(int)v + int(2 * v)  // lanes slopes", x=BOTH),
    each("(A)x, T(x), static_cast<A>", "(A)v * T(v) + static_cast<A>(2)"),
    each("(float)x", "(float)v * v  // lanes slopes"),
    Idiom(
        "an implicit narrowing to int",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const int whole = 3 * x[i];  // lanes slopes
          out[i] = x[i] * whole;
        }
        """,
        numpy=lambda x: x * np.floor(3 * x),
    ),
    Idiom(
        "float v = x[i]",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          float v = x[i];  // lanes slopes
          out[i] = v * v;
        }
        """,
        numpy=lambda x: x * x,
    ),
    each(
        "a bool as a number", "v * (v > 1) + (v < 0.5f)  // lanes", x=(0.2, 2)
    ),
    each("!!v and a number as a truth", "v ? 1 / v : 0  // lanes slopes?"),
    # --- Integers -------------------------------------------------------------
    Idiom(
        "a count of what is great",
        """
        int count = 0;
        for (auto v : x) count += v > 1;  // lanes
        out[0] = count;
        """,
        m=1,
        numpy=lambda x: (x > 1).sum(-1)[:, None],
    ),
    Idiom(
        "a histogram in an array of ints",
        """
        int bins[4] = {};
        for (auto v : x) bins[(int)kit::value(v * 2)]++;  // lanes
        for (int i = 0; i < 4; ++i) out[i] = bins[i];
        """,
        m=4,
        numpy=lambda x: _row(x, lambda r: np.histogram(r, 4, (0, 2))[0]),
    ),
    Idiom(
        "argmax by an index",
        """
        int64_t best = 0;
        for (int64_t i = 1; i < x.size(); ++i)
          if (x[i] > x[best]) best = i;  // lanes
        out[0] = x[best] * best;
        """,
        m=1,
        numpy=lambda x: x.max(-1)[:, None] * x.argmax(-1)[:, None],
    ),
    Idiom(
        "a bool that remembers",
        """
        bool rising = true;
        for (int64_t i = 1; i < x.size(); ++i)
          rising &= x[i] > x[i - 1];  // lanes
        out[0] = rising ? x[0] : x[1];
        """,
        m=1,
    ),
    Idiom(
        "auto of a comparison, as a mask",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const auto is_great = (x[i] > 1) & (x[i] < 1.7f);
          out[i] = kit::where(!is_great | (x[i] == 2), x[i], x[i] * x[i]);
        }
        """,
        numpy=lambda x: np.where((x > 1) & (x < 1.7), x * x, x),
    ),
    Idiom(
        "random numbers of an integer generator",
        """
        uint32_t state = 12345;
        for (int64_t i = 0; i < x.size(); ++i) {
          state = state * 1664525u + 1013904223u;
          out[i] = x[i] * ((state >> 8) * (1.0f / 16777216.0f));
        }
        """,
    ),
    Idiom(
        "unsigned wraps around, shifts, bits",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const uint8_t u = static_cast<uint8_t>(250 + i);
          const int reversed = ((i & 1) << 2) | (i & 2) | ((i >> 2) & 1);
          out[i] = x[i] * (u % 7) + (reversed ^ 5);
        }
        """,
    ),
    # --- Attributes -----------------------------------------------------------
    Idiom(
        "attributes of every type",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          A y = scale * x[i] + k / 2;
          if (flag) y *= factors[0];  // lanes
          for (auto f : factors) y += f * x[i];
          out[i] = mode == "mean" ? A(y / x.size()) : y;
        }
        """,
        kind="attributes",
        numpy=lambda x: ((1.5 * x + 1) / 2 + 2.5 * x) / 6,
    ),
    Idiom(
        "switch and powers by attributes",
        """
        switch (k) {
          case 3:
            for (int64_t i = 0; i < x.size(); ++i)
              out[i] = std::pow(x[i], k) + std::pow(x[i], scale);  // lanes
            break;
          default:
            for (int64_t i = 0; i < x.size(); ++i) out[i] = 0;
        }
        """,
        kind="attributes",
        numpy=lambda x: x**3 + x**1.5,
    ),
    Idiom(
        "a copy of an attribute that changes",
        """
        auto rate = scale;
        A state = 0;
        for (int64_t i = 0; i < x.size(); ++i, rate *= 0.5f)
          out[i] = state += rate * x[i];
        """,
        kind="attributes",
        numpy=lambda x: np.cumsum(x * 1.5 * 0.5 ** np.arange(6), -1),
    ),
    # --- Operands and results -------------------------------------------------
    Idiom(
        "a shared operand",
        """
        A s = 0;
        for (int64_t i = 0; i < x.size(); ++i) s += w[i] * x[i];
        for (int64_t i = 0; i < x.size(); ++i) out[i] = s * w[w.size() - 1 - i];
        """,
        kind="shared",
        numpy=lambda x, w: (x @ w)[:, None] * w[::-1],
    ),
    Idiom(
        "a branch on a shared operand",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          if (w[i] > 1) out[i] = x[i] * w[i]; else out[i] = -x[i];  // both?
        }
        """,
        kind="shared",
        numpy=lambda x, w: np.where(w > 1, x * w, -x),
    ),
    Idiom(
        "an index from a shared operand",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = x[int(kit::value(w[i]))] * w[i];  // both?
        """,
        kind="shared",
        numpy=lambda x, w: x[:, w.astype(int)] * w,
    ),
    Idiom(
        "a float of a shared operand",
        """
        float least = w[0];  // slopes
        for (auto v : w) least = std::min<float>(least, v);  // slopes
        out[0] = x[0] * least;
        """,
        kind="shared",
        m=1,
        numpy=lambda x, w: x[:, :1] * w.min(),
    ),
    Idiom(
        "two results",
        """
        A s = 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          out[i] = s += x[i];
          also[i] = out[i] * x[i];
        }
        """,
        kind="two",
        numpy=lambda x: np.c_[np.cumsum(x, -1), np.cumsum(x, -1) * x],
    ),
    Idiom(
        "a helper that takes rows",
        """
        cumulate(x, out);
        cumulate(out, also);
        """,
        before="""
        template <typename In, typename Out>
        void cumulate(const In& from, const Out& to) {
          for (int64_t i = 0; i < from.size(); ++i)
            to[i] = i == 0 ? from[0] : from[i] + to[i - 1];  // slopes?
        }
        """,
        kind="two",
        numpy=lambda x: np.c_[
            np.cumsum(x, -1), np.cumsum(np.cumsum(x, -1), -1)
        ],
    ),
    Idiom(
        "out[i] += after zeros",
        """
        for (int64_t i = 0; i < out.size(); ++i) out[i] = 0;
        for (int64_t i = 0; i < x.size(); ++i)
          for (int64_t j = 0; j <= i; ++j) out[j] += x[i] * x[j];
        """,
        numpy=lambda x: x * np.cumsum(x[:, ::-1], -1)[:, ::-1],
    ),
    Idiom(
        "std::fill of a result",
        """
        std::fill(out.begin(), out.end(), A(1));  // lanes?
        for (int64_t i = 0; i < x.size(); i += 2) out[i] -= x[i];
        """,
        before="#include <algorithm>",
        numpy=lambda x: 1 - x * (np.arange(6) % 2 == 0),
    ),
    Idiom(
        "out[i - 1]",
        """
        out[0] = x[0];
        for (int64_t i = 1; i < x.size(); ++i) out[i] = out[i - 1] * x[i] + 1;
        """,
    ),
    Idiom(
        "writing backwards",
        """
        A s = 0;
        for (int64_t i = x.size(); i-- > 0;) out[i] = s = 0.5f * s + x[i];
        """,
    ),
    Idiom(
        "++out[i], out[i]--, a chain of assignments",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          out[i] = x[i];
          ++out[i];  // lanes?
          out[i]++;  // lanes? slopes?
        }
        out[0] = out[1] = out[2] * out[3];
        """,
        numpy=lambda x: np.c_[
            ((x[:, 2] + 2) * (x[:, 3] + 2))[:, None].repeat(2, 1), x[:, 2:] + 2
        ],
    ),
    Idiom(
        "a copy of an element that is assigned",
        """
        out[0] = x[0];
        auto v = out[0];
        v = v * 2;  // lanes? slopes?
        out[1] = v;
        """,
        m=2,
        numpy=lambda x: np.c_[x[:, 0], 2 * x[:, 0]],
    ),
    Idiom(
        "rows of one element",
        "out[0] = x[x.size() - 1] * x[0];",
        n=1,
        numpy=lambda x: x * x,
    ),
    Idiom(
        "rows of no elements",
        """
        A s = 1;
        for (auto v : x) s *= v;
        out[0] = s;
        """,
        n=0,
        m=1,
        numpy=lambda x: np.ones((len(x), 1)),
    ),
    Idiom(
        "in place, read before written",
        """
        for (int64_t i = 0; i + 1 < x.size(); ++i) out[i] = x[i] * x[i + 1];
        """
        "out[x.size() - 1] = x[x.size() - 1];\n",
        kind="in place",
        numpy=lambda x: np.c_[x[:, :-1] * x[:, 1:], x[:, -1:]],
    ),
    Idiom(
        "in place, the result read first",
        """
        for (int64_t i = 0; i < out.size(); ++i) out[i] = 3 * out[i] * out[i];
        """,
        kind="in place",
        numpy=lambda x: 3 * x * x,
    ),
    Idiom(
        "in place, the operand after the result was written",
        """
        out[0] = x[0] * 2;
        for (int64_t i = 1; i < x.size(); ++i)
          out[i] = x[i - 1] + x[i];  // lanes? slopes?
        """,
        kind="in place",
        numpy=lambda x: np.cumsum(x, -1) + x[:, :1],
    ),
    Idiom(
        "in place, += of what is there",
        """
        for (int64_t i = 1; i < x.size(); ++i) out[i] += out[i - 1];
        """,
        kind="in place",
        numpy=lambda x: np.cumsum(x, -1),
    ),
    Idiom(
        "kit::for_each",
        """
        A s = 0;
        kit::for_each(x, out, [&](auto v) { s += v * v; return s; });
        """,
        numpy=lambda x: np.cumsum(x * x, -1),
    ),
    # --- kit::scan, whose numbers are jets in reverse mode --------------------
    Idiom(
        "kit::scan",
        """
        A s = 0, peak = x[0];
        kit::scan(x.size(), s, peak,
                  [&]<typename A>(int64_t i, A& s, A& peak) {
          s = 0.5f * s + x[i] * x[i];
          peak = std::max(0.9f * peak, A(std::sin(s)));
          out[i] = s * peak;
        });
        out[0] = s / peak;
        """,
    ),
    Idiom(
        "kit::scan of arrays, structs and integers",
        """
        A a[2][2] = {{1, 0}, {0.5f, 1}};
        std::array<A, 2> both = {A(x[0]), A(x[1])};
        int64_t count = 0;
        std::vector<int> seen;
        kit::scan(x.size(), a, both, count, seen,
                  [&](int64_t i, auto& a, auto& both, int64_t& count,
                      std::vector<int>& seen) {
          for (int k = 0; k < 2; ++k) {
            auto& row = a[k];
            row[0] += row[1] * x[i];
            both[k] = both[k] * 0.5f + a[k][0];
          }
          a[0][1] = both[1] * 0.25f;
          count += i;
          seen.push_back(int(i));
          out[i] = both[0] * a[0][1];
        });
        out[0] = both[0] * count + a[1][0] * int(seen.size());
        """,
        before="#include <array>\n#include <vector>",
    ),
    Idiom(
        "kit::scan that changes a number it captures",
        """
        A s = 1, sum = 0, last = 0;
        std::vector<A> line(3, A(1));
        kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
          s = s * 0.75f + x[i] * last;
          sum += s * line[i % 3];
          line[i % 3] = s * s;
          last = 0.5f * s;
        });
        out[0] = sum * s + line[1] * last;
        """,
        before="#include <vector>",
        m=1,
    ),
    Idiom(
        "kit::scan that reads what its step has written",
        """
        A s = 0;
        kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
          s += x[i];
          out[i] = s * s;
          s += 0.1f * out[i];
          out[i] += x[i] * out[i];
        });
        """,
    ),
    Idiom(
        "kit::scan that reads what steps before have written",
        """
        A gain = 1;
        kit::scan(x.size(), gain, [&](int64_t i, auto& gain) {
          gain = 0.9f * gain + 0.1f * x[i];
          out[i] = gain * x[i];
          if (i > 1) out[i] = gain * x[i] - 0.5f * out[i - 1] * out[i - 2];
        });
        """,
    ),
    Idiom(
        "kit::scan that reads more than it has slots for",
        """
        A s = 1;
        kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
          A sum = 0;
          for (int64_t j = 0; j <= i; ++j) sum += x[j] * x[(j * 7) % x.size()];
          out[i] = s = 0.5f * s + sum / (i + 1);
        });
        """,
        n=20,
    ),
    Idiom(
        "kit::scan whose step catches everything",
        """
        A s = 1;
        kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
          try {
            A sum = 0;
            for (int64_t j = 0; j <= i; ++j) sum += x[j] * x[j];
            out[i] = s = 0.5f * s + sum / (i + 1);
          } catch (...) {
            s = 0;
          }
        });
        """,
        n=20,
    ),
    Idiom(
        "kit::scan of more numbers than a step has slots for",
        """
        A a[13];
        for (int k = 0; k < 13; ++k) a[k] = k * x[0];
        kit::scan(x.size(), a, [&](int64_t i, auto& a) {
          for (int k = 0; k < 12; ++k) a[k] += 0.1f * a[k + 1] * x[i];
          a[12] = 0.5f * a[0];
          out[i] = a[3];
        });
        """,
    ),
    Idiom(
        "kit::scan of nine numbers",
        """
        A a[9];
        for (int k = 0; k < 9; ++k) a[k] = k * x[0];
        kit::scan(x.size(), a, [&]<typename A>(int64_t i, A (&a)[9]) {
          for (int k = 0; k < 8; ++k) a[k] += 0.1f * a[k + 1] * x[i];
          a[8] = 0.5f * a[0] * x[0];
          out[i] = a[3];
        });
        """,
    ),
    Idiom(
        "kit::scan of no steps, of one and twice",
        """
        A s = x[0];
        const auto step = [&](int64_t i, auto& s) { s *= x[i]; };
        kit::scan(0, s, step);
        kit::scan(-1, s, step);
        kit::scan(1, s, step);
        out[0] = s;
        kit::scan(x.size(), s, step);
        s = s * s;
        kit::scan(2, s, step);
        out[1] = s;
        """,
        m=2,
        numpy=lambda x: np.stack(
            [
                x[:, 0] ** 2,
                (x[:, 0] ** 2 * x.prod(-1)) ** 2 * x[:, 0] * x[:, 1],
            ],
            -1,
        ),
    ),
    Idiom(
        "kit::scan in a step of another",
        """
        A s = 0;
        kit::scan(3, s, [&]<typename A>(int64_t i, A& s) {
          A product = 1;
          kit::scan(2, product, [&]<typename B>(int64_t j, B& product) {
            product *= x[2 * i + j] + s;
          });
          s += product;
          out[i] = s;
        });
        """,
        m=3,
    ),
    Idiom(
        "kit::scan in a step of another, of numbers outside of it",
        """
        A s = 0, product = 1;
        kit::scan(3, s, [&]<typename A>(int64_t i, A& s) {
          kit::scan(2, product, [&]<typename B>(int64_t j, B& product) {
            product *= x[2 * i + j] + s;  // slopes?
          });
          s += 0.5f;
        });
        out[0] = product + s;
        """,
        m=1,
        numpy=lambda x: (
            (x + np.repeat([0, 0.5, 1], 2)).prod(-1, keepdims=True) + 1.5
        ),
    ),
    Idiom(
        "kit::scan that captures a number of the name of its variable",
        """
        A s = x[0];
        A& outer = s;
        kit::scan(x.size(), s, [&]<typename A>(int64_t i, A& s) {
          s += x[i] * outer;
          outer = 7;
        });
        out[0] = s;
        """,
        m=1,
        numpy=lambda x: (x[:, 0] * (1 + x[:, 0]) + 7 * x[:, 1:].sum(-1))[
            :, None
        ],
    ),
    Idiom(
        "kit::scan with helpers, a struct and an early return",
        """
        Pair<A> start = {x[0], x[1]};
        A u = start.a, w = start.b;
        kit::scan(x.size(), u, w, [&]<typename A>(int64_t i, A& u, A& w) {
          Pair<A> pair = {u, w};
          turn(pair, A(0.1f * x[i]));
          u = pair.a, w = pair.b;
          if (i == 2) return;
          out[i] = pair.dot();
        });
        out[2] = u * w;
        """,
        before="""
        template <typename N>
        struct Pair { N a, b; N dot() const { return a * a + 2 * b * b; } };
        template <typename N>
        void turn(Pair<N>& pair, N by) {
          const N a = pair.a - by * pair.b;
          pair.b += by * pair.a, pair.a = a;
        }
        """,
    ),
    Idiom(
        "kit::scan that branches on its state",
        """
        A level = 0, weight = 1;
        bool is_high = false;
        kit::scan(x.size(), level, weight, is_high,
                  [&](int64_t i, auto& level, auto& weight, bool& is_high) {
          level = x[i] > level ? x[i] : 0.75f * level;  // lanes
          if (level > 1.5f) is_high = true, weight = level * x[i];
          out[i] = is_high ? weight : level * level;
        });
        """,
        x=BOTH,
    ),
    Idiom(
        "kit::scan with doubles",
        """
        A s = 1;
        kit::scan(x.size(), s, [&](int64_t i, auto& s) {
          s = s * 0.7 + x[i] * 0.3 * std::pow(x[i], 2);  // lanes? slopes?
          out[i] = std::max(s, x[i]);
        });
        """,
    ),
    Idiom(
        "kit::scan with a number of the wrong type",
        """
        A s = 1;
        kit::scan(x.size(), s, [&](int64_t i, auto& s) {
          const A next = s * x[i];  // slopes
          out[i] = s = next;
        });
        """,
    ),
    Idiom(
        "kit::scan whose sums vanish, with a shared operand",
        """
        A a = 0, b = 0;
        kit::scan(x.size(), a, b, [&]<typename A>(int64_t i, A& a, A& b) {
          a = w[0] * a + w[1] * x[i];
          b += std::exp(-a * w[2]) + w[i];
          out[i] = kit::where(b > 1, a * b, std::sqrt(b));
        });
        """,
        kind="shared",
    ),
    Idiom(
        "kit::scan over the cells of soft-DTW",
        """
        std::vector<A> line(w.size() + 1, A(1e3f));
        line[0] = 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          A corner = line[0], left = 1e3f;
          line[0] = 1e3f;
          kit::scan(w.size(), corner, left,
                    [&]<typename A>(int64_t j, A& corner, A& left) {
            const A up = line[j + 1], d = x[i] - w[j];
            const A low = std::min(corner, std::min(left, up));
            left = d * d + low -
                   std::log(std::exp(low - corner) + std::exp(low - left) +
                            std::exp(low - up));
            line[j + 1] = left;
            corner = up;
          });
        }
        out[0] = line[w.size()];
        """,
        before="#include <vector>",
        kind="shared",
        m=1,
    ),
    Idiom(
        "kit::scan of two results, backwards",
        """
        A s = 0;
        const int64_t n = x.size();
        kit::scan(n, s, [&]<typename A>(int64_t i, A& s) {
          const int64_t j = n - 1 - i;
          s = 0.5f * s + x[j] * x[0];
          out[j] = s;
          also[i] = std::cos(s) * x[j];
        });
        also[0] += out[n - 1] * s;
        """,
        kind="two",
    ),
    # --- What is no number ----------------------------------------------------
    Idiom(
        "x != x",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          const A v = x[i], bad = (v - v) / (v - v);
          out[i] = kit::where(bad != bad, v, A(0));
          out[i] += kit::where(v != v, A(1), v * v);
        }
        """,
        numpy=lambda x: x + x * x,
    ),
    Idiom(
        "infinity as a sentinel",
        """
        A best = INFINITY;
        for (auto v : x) best = std::min(best, A(v * v - v));
        out[0] = kit::where(best < INFINITY, best, A(0));
        """,
        m=1,
        numpy=lambda x: (x * x - x).min(-1)[:, None],
    ),
    each("numbers near the least of float", "v * 1e-30f * 1e-4f * 1e34f"),
    each(
        "a guard of exp", "1 / (1 + std::exp(std::min(-40 * v, A(80))))", x=BOTH
    ),
    # --- Numerical recipes ----------------------------------------------------
    Idiom(
        "log-sum-exp and softmax",
        """
        A most = x[0];
        for (auto v : x) most = std::max(most, A(v));
        A s = 0;
        for (auto v : x) s += std::exp(v - most);
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = std::exp(x[i] - most) / s + std::log(s) + most;
        """,
        x=BOTH,
        numpy=lambda x: (
            lambda e: (
                e / e.sum(-1, keepdims=True) + np.log(e.sum(-1, keepdims=True))
            )
        )(np.exp(x)),
    ),
    Idiom(
        "Welford's variance",
        """
        A mean = 0, m2 = 0;
        int64_t n = 0;
        for (auto v : x) {
          const A delta = v - mean;
          mean += delta / ++n;
          m2 += delta * (v - mean);
        }
        out[0] = mean, out[1] = std::sqrt(m2 / (n - 1));
        """,
        m=2,
        numpy=lambda x: np.c_[x.mean(-1), x.std(-1, ddof=1)],
    ),
    Idiom(
        "Kahan's sum",
        """
        A s = 1e5f, c = 0;
        for (int j = 0; j < 50; ++j)
          for (int64_t i = 0; i < x.size(); ++i) {
            const A y = x[i] - c, t = s + y;
            c = (t - s) - y;
            s = t;
          }
        out[0] = s - 1e5f;
        """,
        m=1,
        numpy=lambda x: 50 * x.sum(-1)[:, None],
        tolerance=1.5e-4,
    ),
    Idiom(
        "Runge-Kutta with a struct as state",
        """
        State<A> s{x[0], x[1]};
        for (int i = 0; i < 3; ++i) s = runge_kutta(s, 0.1f, A(x[2]));
        out[0] = s.p, out[1] = s.v;
        """,
        before="""
        template <typename N> struct State {
          N p, v;
          State operator+(State o) const { return {p + o.p, v + o.v}; }
          friend State operator*(float h, State s) {
            return {h * s.p, h * s.v};
          }
        };
        template <typename N> State<N> slope_of(State<N> s, N k) {
          return {s.v, -k * std::sin(s.p)};
        }
        template <typename N> State<N> runge_kutta(State<N> s, float h, N k) {
          const State<N> a = slope_of(s, k), b = slope_of(s + h / 2 * a, k),
                         c = slope_of(s + h / 2 * b, k),
                         d = slope_of(s + h * c, k);
          return s + h / 6 * (a + 2.0f * b + 2.0f * c + d);
        }
        """,
        m=2,
    ),
    Idiom(
        "Horner's scheme",
        """
        A y = 0;
        for (int64_t i = x.size() - 1; i > 0; --i) y = y * x[0] + x[i];
        out[0] = y;
        """,
        m=1,
        numpy=lambda x: _row(x, lambda r: np.polyval(r[:0:-1], r[0])),
    ),
    Idiom(
        "Thomas' algorithm",
        """
        const int64_t n = x.size();
        std::vector<A> c(n), d(n);
        c[0] = A(0.2f) / (2 + x[0]), d[0] = x[0] / (2 + x[0]);
        for (int64_t i = 1; i < n; ++i) {
          const A m = 1 / (2 + x[i] - 0.3f * c[i - 1]);
          c[i] = 0.2f * m;
          d[i] = (x[i] - 0.3f * d[i - 1]) * m;
        }
        out[n - 1] = d[n - 1];
        for (int64_t i = n - 2; i >= 0; --i) out[i] = d[i] - c[i] * out[i + 1];
        """,
        before="#include <vector>",
        numpy=lambda x: _row(
            x,
            lambda r: np.linalg.solve(
                np.diag(2 + r) + 0.2 * np.eye(6, k=1) + 0.3 * np.eye(6, k=-1), r
            ),
        ),
    ),
    Idiom(
        "Levinson's recursion",
        """
        const int64_t n = 3;
        A a[4] = {1}, error = x[0] + 2;
        for (int64_t i = 1; i <= n; ++i) {
          A acc = x[i];
          for (int64_t j = 1; j < i; ++j) acc += a[j] * x[i - j];
          const A k = -acc / error;
          A next[4];
          for (int64_t j = 1; j < i; ++j) next[j] = a[j] + k * a[i - j];
          for (int64_t j = 1; j < i; ++j) a[j] = next[j];
          a[i] = k;
          error *= 1 - k * k;
        }
        for (int64_t i = 0; i <= n; ++i) out[i] = a[i];
        """,
        m=4,
    ),
    Idiom(
        "Viterbi with back pointers",
        """
        const int64_t n = x.size();
        std::vector<int> from(2 * n);
        A a = x[0], b = x[0] * x[0];
        for (int64_t i = 1; i < n; ++i) {
          const bool stays = a > b - 0.1f, moves = a - 0.1f > b;  // lanes
          from[2 * i] = stays ? 0 : 1, from[2 * i + 1] = moves ? 0 : 1;
          const A c = (stays ? a : A(b - 0.1f)) + x[i];
          b = (moves ? A(a - 0.1f) : b) + x[i] * x[i], a = c;
        }
        int at = a > b ? 0 : 1;
        out[n - 1] = at ? b : a;
        for (int64_t i = n - 1; i > 0; --i) out[i - 1] = at = from[2 * i + at];
        """,
        before="#include <vector>",
    ),
    Idiom(
        "an edit distance",
        """
        const int64_t n = x.size();
        std::vector<A> row(n + 1);
        for (int64_t j = 0; j <= n; ++j) row[j] = j * 0.3f;
        for (int64_t i = 1; i <= n; ++i) {
          A diagonal = row[0];
          row[0] = i * 0.3f;
          for (int64_t j = 1; j <= n; ++j) {
            const A cost = std::abs(x[i - 1] - w[j - 1]), above = row[j];
            row[j] = std::min(std::min(above + 0.31f, row[j - 1] + 0.32f),
                              diagonal + cost);
            diagonal = above;
          }
        }
        out[0] = row[n];
        """,
        before="#include <vector>",
        kind="shared",
        m=1,
    ),
    Idiom(
        "isotonic regression",
        """
        std::vector<A> mean;
        std::vector<int64_t> size;
        for (auto v : x) {
          mean.push_back(v), size.push_back(1);
          while (mean.size() > 1 &&  // lanes
                 mean[mean.size() - 2] > mean.back()) {  // lanes
            const A m = mean.back(); const int64_t k = size.back();
            mean.pop_back(), size.pop_back();
            A& to = mean.back();
            to = (to * size.back() + m * k) / (size.back() + k);
            size.back() += k;
          }
        }
        int64_t i = 0;
        for (size_t b = 0; b < mean.size(); ++b)
          for (int64_t j = 0; j < size[b]; ++j) out[i++] = mean[b];
        """,
        before="#include <vector>",
    ),
    Idiom(
        "a heap",
        """
        std::priority_queue<A> heap;
        for (auto v : x) {
          heap.push(v);  // lanes
          if (heap.size() > 3) heap.pop();  // lanes
        }
        for (int i = 2; i >= 0; --i) out[i] = heap.top(), heap.pop();  // lanes
        """,
        before="#include <queue>",
        m=3,
        numpy=lambda x: np.sort(x, -1)[:, :3],
    ),
    Idiom(
        "union-find",
        """
        int parent[6] = {0, 1, 2, 3, 4, 5};
        auto find = [&](int i) {
          while (parent[i] != i) i = parent[i];
          return i;
        };
        for (int i = 0; i + 1 < 6; ++i)
          if (std::abs(x[i] - x[i + 1]) < 0.5f)  // lanes
            parent[find(i + 1)] = find(i);
        for (int i = 0; i < 6; ++i) out[i] = x[find(i)];
        """,
    ),
    Idiom(
        "maxima of prefixes",
        """
        A most = -1e30f;
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = most = std::max<A>(most, x[i]);  // lanes?
        """,
        numpy=lambda x: np.maximum.accumulate(x, -1),
    ),
    Idiom(
        "CORDIC with a table",
        """
        static const double angles[] = {0.7853981633974483, 0.4636476090008061,
            0.24497866312686414, 0.12435499454676144};
        A c = 0.608833912517752f, s = 0, angle = 0;
        float power = 1;
        for (int i = 0; i < 4; ++i, power /= 2) {
          const A d = kit::where(angle < x[0], A(1), A(-1));
          const A t = c - d * power * s;
          s += d * power * c, c = t, angle += d * float(angles[i]);
        }
        out[0] = c * x[0], out[1] = s * x[0];
        """,
        m=2,
    ),
    Idiom(
        "the trapezoid rule",
        """
        A s = 0;
        for (int64_t i = 0; i + 1 < x.size(); ++i)
          s += 0.5f * (x[i + 1] - x[i]) * (x[i] * x[i] + x[i + 1] * x[i + 1]);
        out[0] = s;
        """,
        m=1,
        numpy=lambda x: (
            np.diff(x, axis=-1) * (x[:, 1:] ** 2 + x[:, :-1] ** 2) / 2
        ).sum(-1)[:, None],
    ),
    Idiom(
        "a natural cubic spline",
        """
        const int n = 6;
        A y2[6], u[6];
        y2[0] = u[0] = 0;
        for (int i = 1; i < n - 1; ++i) {
          const A p = 0.5f * y2[i - 1] + 2.0f;
          y2[i] = -0.5f / p;
          u[i] = (3 * (x[i + 1] - 2 * x[i] + x[i - 1]) - 0.5f * u[i - 1]) / p;
        }
        y2[n - 1] = 0;
        for (int k = n - 2; k >= 0; --k) y2[k] = y2[k] * y2[k + 1] + u[k];
        for (int i = 0; i < n; ++i) out[i] = y2[i];
        """,
    ),
    Idiom(
        "a quaternion made of length 1",
        """
        A q[4] = {x[0], x[1], x[2], x[3]};
        A norm = 0;
        for (A c : q) norm += c * c;
        norm = std::sqrt(norm);
        for (A& c : q) c /= norm;
        out[0] = 1 - 2 * (q[2] * q[2] + q[3] * q[3]);
        """,
        m=1,
        numpy=lambda x: (
            1 - 2 * (x[:, 2] ** 2 + x[:, 3] ** 2) / (x[:, :4] ** 2).sum(-1)
        )[:, None],
    ),
    Idiom(
        "the inverse of a matrix of 2 by 2",
        """
        const A m[2][2] = {{3 + x[0], x[1]}, {x[2], 3 + x[3]}};
        const A det = m[0][0] * m[1][1] - m[0][1] * m[1][0];
        out[0] = m[1][1] / det, out[1] = -m[0][1] / det;
        out[2] = -m[1][0] / det, out[3] = m[0][0] / det;
        """,
        m=4,
        numpy=lambda x: np.linalg.inv(
            x[:, :4].reshape(-1, 2, 2) + 3 * np.eye(2)
        ).reshape(-1, 4),
    ),
    Idiom(
        "Gauss with a pivot",
        """
        A m[2][3] = {{x[0], x[1], x[2]}, {x[3], x[4], x[5]}};
        if (std::abs(m[1][0]) > std::abs(m[0][0]))  // lanes
          std::swap(m[0], m[1]);
        const A f = m[1][0] / m[0][0];
        for (int j = 0; j < 3; ++j) m[1][j] -= f * m[0][j];
        out[0] = m[1][1] + m[1][2];
        """,
        m=1,
    ),
    Idiom(
        "Newton's iteration of a fixed number of steps",
        """
        A y = 1;
        for (int i = 0; i < 8; ++i) y -= (y * y * y - x[0]) / (3 * y * y);
        out[0] = y;
        """,
        m=1,
        numpy=lambda x: np.cbrt(x[:, :1]),
    ),
    Idiom(
        "bisection",
        """
        A low = 0, high = 2;
        for (int i = 0; i < 8; ++i) {
          const A middle = (low + high) / 2;
          const bool is_low = middle * middle < x[0];  // lanes
          (is_low ? low : high) = middle;
        }
        out[0] = low + x[0];
        """,
        m=1,
        tolerance=1e-6,
    ),
    Idiom(
        "a Haar wavelet in place",
        """
        A v[4] = {x[0], x[1], x[2], x[3]};
        for (int n = 4; n > 1; n /= 2) {
          A t[4];
          for (int i = 0; i < n / 2; ++i)
            t[i] = (v[2 * i] + v[2 * i + 1]) / 2,
            t[n / 2 + i] = v[2 * i] - v[2 * i + 1];
          std::copy(t, t + n, v);
        }
        for (int i = 0; i < 4; ++i) out[i] = v[i] * v[i];
        """,
        before="#include <algorithm>",
        m=4,
    ),
    Idiom(
        "a ring buffer",
        """
        A ring[3] = {};
        int at = 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          out[i] = x[i] - ring[at] * 0.5f;
          ring[at] = x[i] * x[i];
          at = (at + 1) % 3;
        }
        """,
    ),
    Idiom(
        "a hysteresis that keeps its state",
        """
        A state = 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          if (x[i] > 1.2f) state = x[i];  // lanes
          else if (x[i] < 0.8f) state = -x[i];
          out[i] = state;
        }
        """,
    ),
    Idiom(
        "an exception for bad numbers",
        """
        if (x[0] < 0) throw std::domain_error("negative");  // lanes
        out[0] = std::sqrt(x[0]);
        """,
        before="#include <stdexcept>",
        m=1,
        numpy=lambda x: np.sqrt(x[:, :1]),
    ),
    Idiom(
        "assert",
        """
        assert(x.size() == 6);
        assert(x[0] > 0);  // lanes
        out[0] = x[0];
        """,
        before="#undef NDEBUG\n#include <cassert>",
        m=1,
        numpy=lambda x: x[:, :1],
    ),
    Idiom(
        "macros",
        """
        out[0] = SQUARE(x[0]) + TWICE(SQUARE(x[1]));
        """,
        before="#define SQUARE(v) ((v) * (v))\n#define TWICE(v) ((v) + (v))",
        m=1,
        numpy=lambda x: x[:, :1] ** 2 + 2 * x[:, 1:2] ** 2,
    ),
    Idiom(
        "text of a number",
        """
        std::ostringstream text;
        text << x[0];  // lanes slopes
        out[0] = x[0] * text.str().size();
        """,
        before="#include <sstream>",
        m=1,
    ),
    Idiom(
        "printf of a number",
        """
        char text[32];
        std::snprintf(text, sizeof(text), "%.2f", x[0]);  // lanes slopes
        out[0] = x[0] * std::atof(text);
        """,
        before="#include <cstdio>\n#include <cstdlib>",
        m=1,
        numpy=lambda x: x[:, :1] * np.round(x[:, :1].astype(np.float32), 2),
        tolerance=2e-2,
    ),
    Idiom(
        "std::hash of a number",
        """
        std::unordered_map<A, int> seen;  // lanes slopes
        for (auto v : x) seen[v]++;  // lanes slopes
        out[0] = x[0] * seen.size();  // lanes slopes
        """,
        before="#include <unordered_map>",
        m=1,
        numpy=lambda x: x[:, :1] * 6,
    ),
    Idiom(
        "&& that guards an element",
        """
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = kit::where(i > 0 && x[i - 1] > 1, x[i], -x[i]);  // lanes
        """,
        numpy=lambda x: np.where(
            np.pad(x, ((0, 0), (1, 0)))[:, :-1] > 1, x, -x
        ),
    ),
    Idiom(
        "|| with an effect",
        """
        int count = 0;
        for (int64_t i = 0; i < x.size(); ++i)
          out[i] = kit::where(x[i] > 0 || ++count > 0, x[i], A(0));  // lanes
        out[0] *= 1 + count;
        """,
        numpy=lambda x: x,
    ),
    Idiom(
        "a reference to the greater one",
        """
        A a = x[0], b = x[1];
        const A& most = std::max(a, b);  // lanes slopes
        a = b = 3 * x[2];
        out[0] = most * most;
        """,
        before="#include <algorithm>",
        m=1,
        numpy=lambda x: 9 * x[:, 2:3] ** 2,
    ),
    Idiom(
        "a memo of the last row",
        """
        static thread_local A last = -1, cube = 0;  // lanes slopes
        if (x[0] != last) last = x[0], cube = x[0] * x[0] * x[0];
        for (int64_t i = 0; i < x.size(); ++i) out[i] = cube * x[i];
        """,
        numpy=lambda x: x[:, :1] ** 3 * x,
    ),
    Idiom(
        "a static constant from data",
        """
        static const A first = x[0] * 0;  // lanes slopes
        for (int64_t i = 0; i < x.size(); ++i) out[i] = first + x[i];
        """,
        numpy=lambda x: x,
    ),
    Idiom(
        "malloc by the size of a float",
        """
        A* v = (A*)std::malloc(sizeof(float) * x.size());  // lanes slopes
        for (int64_t i = 0; i < x.size(); ++i) v[i] = 2 * x[i];
        for (int64_t i = 0; i < x.size(); ++i) out[i] = v[i] * v[i];
        std::free(v);
        """,
        before="#include <cstdlib>",
        numpy=lambda x: 4 * x * x,
    ),
    Idiom(
        "a cast to a reference of an integer",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          A v = x[i];
          const int bits = (int&)v;  // lanes slopes
          out[i] = v * (1 + (bits < 0));
        }
        """,
        x=BOTH,
    ),
    Idiom(
        "call operators for float and for any type",
        """
        for (int64_t i = 0; i < x.size(); ++i) out[i] = Twice()(T(x[i]));
        """,
        before="""
        struct Twice {
          float operator()(float v) const { return v; }  // lanes slopes
          double operator()(double v) const { return v; }  // lanes slopes
          template <typename N> N operator()(N v) const { return v * 2; }
        };
        """,
        numpy=lambda x: x,
    ),
    Idiom(
        "a function for float beside one for anything",
        """
        for (int64_t i = 0; i < x.size(); ++i) out[i] = x[i] * kind(x[i]);
        """,
        before="""
        inline int kind(float) { return 1; }  // lanes slopes
        inline int kind(double) { return 1; }  // lanes slopes
        inline int kind(...) { return 2; }
        """,
        numpy=lambda x: x,
    ),
    Idiom(
        "a function of one's own named as one of C++",
        """
        for (int64_t i = 0; i < x.size(); ++i) out[i] = fast::twice(T(x[i]));
        """,
        before="""
        namespace fast {
        template <typename N> N exp(N v) { return 1 + v; }  // lanes slopes
        template <typename N> N twice(N v) { return exp(v) * 2; }
        }
        """,
        numpy=lambda x: 2 + 2 * x,
    ),
    Idiom(
        "a double in a choice",
        """
        for (int64_t i = 0; i < x.size(); ++i) {
          auto v = x.size() > 9 ? x[i] : 1e-50;  // lanes slopes
          out[i] = v * 1e30f * 1e20f * x[i];
        }
        """,
        numpy=lambda x: x,
        tolerance=1e-4,
    ),
    Idiom(
        "volatile",
        """
        volatile A v = x[0];  // lanes? slopes?
        out[0] = v * 2;  // lanes? slopes?
        """,
        m=1,
        numpy=lambda x: 2 * x[:, :1],
    ),
]
