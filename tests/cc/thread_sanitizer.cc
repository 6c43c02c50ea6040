// What ThreadSanitizer (--config=tsan) is not to report.
//
// The prebuilt XLA is not instrumented: how its threads wait for each other is
// not seen, so that whatever one of them leaves to another looks like a race.
// Races among a handler's own tasks are found by the tests without XLA.

extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:libtensorflow_cc.so\n"
         "race:libtensorflow_framework.so\n"
         "race:tsl::AsyncValue\n";
}
