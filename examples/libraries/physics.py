"""MuJoCo's step as an operation: gradients of rollouts, worlds on devices."""

import pathlib

import jax
import jax.numpy as jnp
import mujoco

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

# A pole on a cart. Without warm starts, a step is a function of its state.
CART = """<mujoco>
  <option timestep="0.01"><flag warmstart="disable"/></option>
  <worldbody><body>
    <joint name="cart" type="slide" axis="1 0 0" limited="true" range="-1 1"/>
    <geom type="box" size=".2 .1 .1" mass="1"/>
    <body>
      <joint type="hinge" axis="0 1 0" damping=".01"/>
      <geom type="capsule" fromto="0 0 0 0 0 .6" size=".03" mass=".1"/>
    </body>
  </body></worldbody>
  <actuator><motor joint="cart" gear="10"/></actuator>
</mujoco>"""
FOLDER = pathlib.Path(mujoco.__file__).parent
(LIBRARY,) = FOLDER.glob("libmujoco.so.*")
# A model is kept by the text that it is made of; each thread has an mjData.
EACH = """
    #include <algorithm>
    #include <mujoco/mujoco.h>
    #include <stdexcept>
    #include <string>
    #include "xla_ffi/core/kept.h"
    using In = kit::In<double>;
    using Out = kit::Out<double>;
    struct Model {
      explicit Model(std::string_view xml) {
        char error[500] = "";
        auto* spec = mj_parseXMLString(std::string(xml).c_str(), 0, error, 500);
        if (spec != nullptr) model = mj_compile(spec, nullptr);
        mj_deleteSpec(spec);
        if (model == nullptr) throw std::runtime_error(error);
      }
      ~Model() { mj_deleteModel(model); }
      mjModel* model = nullptr;
    };
    struct World {
      explicit World(const kit::Kept<Model>& kept)
          : kept(kept), data(mj_makeData(kept->model)) {}
      ~World() { mj_deleteData(data); }
      const kit::Kept<Model> kept;
      mjData* const data;
    };
    // Calls f(model, data of this state, r) for each row r.
    template <typename F>
    void Each(In x, In u, std::string_view xml, kit::Threads threads, F f) {
      threads.For(x.rows(), 20000, [&](int64_t r, int64_t end) {
        const kit::PerThread<World> world{kit::Kept<Model>(xml)};
        const mjModel* m = world->kept->model;
        for (mjData* d = world->data; r < end; ++r) {
          d->time = 0;
          std::copy_n(x.row(r), m->nq, d->qpos);
          std::copy_n(x.row(r) + m->nq, m->nv, d->qvel);
          std::copy_n(u.row(r), m->nu, d->ctrl);
          f(m, d, r);
        }
      });
    }"""


def string(code, **options):
    flags = f"-I{FOLDER}/include", f"-L{FOLDER}", f"-Wl,-rpath,{FOLDER}"
    options["flags"] = [*flags, f"-l:{LIBRARY.name}"]
    return xla_ffi_kit.inline(EACH + code, has_reference=False, **options)


def jvp(primals, tangents, **model):
    a, b = slopes(*primals, **model)
    dx, du = (jnp.asarray(t)[..., None] for t in tangents)
    return step(*primals, **model), (a @ dx + b @ du)[..., 0]


@string(
    """
    void step(In x, In u, std::string_view model, kit::Threads threads, Out y) {
      Each(x, u, model, threads, [y](const mjModel* m, mjData* d, int64_t r) {
        mj_step(m, d);
        std::copy_n(d->qpos, m->nq, y.row(r));
        std::copy_n(d->qvel, m->nv, y.row(r) + m->nq);
      });
    }""",
    axes="(n),(m)->(n)",
    jvp=jvp,
)
def step(x, u, *, model=CART):
    """The positions, then the velocities, after a step with controls u."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@string(
    """
    void slopes(In x, In u, std::string_view model, kit::Threads threads,
                Out a, Out b) {
      Each(x, u, model, threads, [=](const mjModel* m, mjData* d, int64_t r) {
        r *= m->nq + m->nv;
        mjd_transitionFD(m, d, 1e-6, true, a.row(r), b.row(r), 0, 0);
      });
    }""",
    axes="(n),(m)->(n,n),(n,m)",
)
def slopes(x, u, *, model=CART):
    """MuJoCo's own derivatives of a step, which it takes by differences."""
    shapes = (x.size, x.size), (x.size, u.size)
    return tuple(jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes)


def rollout(x, us, step=step):
    """The state after all controls."""
    return jax.lax.scan(lambda x, u: (step(x, u), None), x, us)[0]
