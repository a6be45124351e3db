// Plain C API: compiles in a fraction of the time that pybind11 takes.
#include <Python.h>

#include <string>

#include "strata/answer.hpp"

namespace strata {

std::string launch_twice();

}  // namespace strata

namespace {

constexpr int kAbiVersion = 1;

PyObject* launch(PyObject*, PyObject*) { return PyUnicode_FromString(strata::launch_twice().c_str()); }

PyMethodDef methods[] = {{"launch", launch, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "ABI_VERSION", kAbiVersion);
  PyModule_AddStringConstant(module, "ISA", "small");
  PyModule_AddIntConstant(module, "VECTOR_BYTES", strata::vector_bytes());
  return module;
}
