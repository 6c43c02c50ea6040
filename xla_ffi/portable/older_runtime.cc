// The few functions that a new gcc takes from a new glibc or libstdc++, so that
// a shared library which defines them itself also loads on older systems.
//
// A newer version of a symbol is usually an old function at a new address; what
// is missing on an older system is a handful of names. Red Hat's compilers for
// old releases link such names from an archive beside the shared libstdc++
// (libstdc++_nonshared.a); this is that archive, as far as the kit needs it.
// Linking all of libstdc++ statically is worse: it brings what the newest glibc
// offers (arc4random, pthread_once@GLIBC_2.34) and a megabyte.
//
// A version script keeps the definitions inside the library. Which names are
// needed is checked where the wheel is made. Mangled names, because headers of
// different ages declare the functions differently; where an older or another
// C++ library has no use for one, it is not referred to.

#include <pthread.h>

#include <condition_variable>
#include <ios>
#include <mutex>
#include <new>
#include <sstream>

#if defined(__GLIBCXX__)

extern "C" {

// GLIBC_2.32. Whether reference counts may do without atomic instructions; 0 is
// always right. Hidden, because the linker would export what libc.so defines
// too, whatever the version script says.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// GLIBCXX_3.4.30. std::condition_variable::wait(std::unique_lock<std::mutex>&)
void ConditionVariableWait(std::condition_variable* self,
                           std::unique_lock<std::mutex>* lock)  //
    asm("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

void ConditionVariableWait(std::condition_variable* self,
                           std::unique_lock<std::mutex>* lock) {
  pthread_cond_wait(self->native_handle(), lock->mutex()->native_handle());
}

// GLIBCXX_3.4.29. std::__throw_bad_array_new_length()
[[noreturn]] void ThrowBadArrayNewLength()  //
    asm("_ZSt28__throw_bad_array_new_lengthv");

void ThrowBadArrayNewLength() { throw std::bad_array_new_length(); }

// GLIBCXX_3.4.26. std::stringstream::stringstream()
void ConstructStringStream(std::stringstream* self) asm(
    "_ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev");

void ConstructStringStream(std::stringstream* self) {
  // With an argument it is a constructor that gcc 5 already had.
  ::new (self) std::stringstream(std::ios_base::in | std::ios_base::out);
}

}  // extern "C"

#endif  // __GLIBCXX__
