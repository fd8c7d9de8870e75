// Under the sanitizers, never unload libraries. Reports about an unloaded driver carry no name, so we could
// neither tell them from our own nor suppress them.
extern "C" int dlclose(void*) { return 0; }
