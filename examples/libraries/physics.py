"""MuJoCo's step as an operation: gradients of rollouts, worlds on devices.

A model is kept by the text that it is made of, and each thread has an `mjData`.
"""

import functools
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
string = functools.partial(
    xla_ffi_kit.rows,
    before="""
    #include <algorithm>
    #include <mujoco/mujoco.h>
    #include <stdexcept>
    #include <string>
    #include "xla_ffi/core/kept.h"
    struct Model {
      explicit Model(std::string_view xml) {
        char error[500] = "";
        const std::string text(xml);
        auto* spec = mj_parseXMLString(text.c_str(), nullptr, error, 500);
        if (spec != nullptr) model = mj_compile(spec, nullptr);
        mj_deleteSpec(spec);
        if (model == nullptr) throw std::runtime_error(error);
      }
      ~Model() { mj_deleteModel(model); }
      mjModel* model = nullptr;
    };
    struct World {
      explicit World(const kit::Kept<Model>& kept)
          : kept(kept), model(kept->model), data(mj_makeData(model)) {}
      ~World() { mj_deleteData(data); }
      void Set(const double* x, const double* u) {
        data->time = 0;
        std::copy_n(x, model->nq, data->qpos);
        std::copy_n(x + model->nq, model->nv, data->qvel);
        std::copy_n(u, model->nu, data->ctrl);
      }
      kit::Kept<Model> kept;
      const mjModel* model;
      mjData* data;
    };""",
    dtypes="f64",
    has_reference=False,
    flags=[
        *(f"-I{FOLDER}/include", f"-L{FOLDER}", f"-l:{LIBRARY.name}"),
        f"-Wl,-rpath,{FOLDER}",
    ],
)
FIND = """
    kit::PerThread<World> world{kit::Kept<Model>(model)};
    world->Set(&x[0], &u[0]);"""


def jvp(primals, tangents, **model):
    a, b = slopes(*primals, **model)
    dx, du = (jnp.asarray(t)[..., None] for t in tangents)
    return step(*primals, **model), (a @ dx + b @ du)[..., 0]


@string(
    f"""{FIND}
    mj_step(world->model, world->data);
    std::copy_n(world->data->qpos, world->model->nq, &out[0]);
    std::copy_n(world->data->qvel, world->model->nv, &out[world->model->nq]);
    """,
    axes="(n),(m)->(n)",
    jvp=jvp,
)
def step(x, u, *, model=CART):
    """The positions, then the velocities, after a step with controls u."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@string(
    f"""{FIND}
    mjd_transitionFD(world->model, world->data, 1e-6, true, &a[0], &b[0], 0, 0);
    """,
    axes="(n),(m)->(n,n),(n,m)",
    results="a b",
)
def slopes(x, u, *, model=CART):
    """MuJoCo's own derivatives of a step, which it takes by differences."""
    shapes = (x.size, x.size), (x.size, u.size)
    return tuple(jax.ShapeDtypeStruct(shape, x.dtype) for shape in shapes)


def rollout(x, us, step=step):
    """The state after all controls."""
    return jax.lax.scan(lambda x, u: (step(x, u), None), x, us)[0]
