// Keeps libraries loaded under the sanitizers: a report about an unloaded driver names no library, so we
// could neither recognize nor suppress it.
extern "C" int dlclose(void*) { return 0; }
