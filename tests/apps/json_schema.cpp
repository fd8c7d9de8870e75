#include "tests/apps/json_schema.h"

#include "tests/apps/program.h"
#include "tests/support/files.h"

#include <cstdio>
#include <doctest/doctest.h>

namespace towers::test {

std::string schema_errors(const std::string& schema, const std::filesystem::path& file) {
    const char* const script = "import json, sys\n"
                               "try:\n"
                               "    import jsonschema\n"
                               "except ImportError:\n"
                               "    sys.exit(77)\n"
                               "schema = json.load(open(sys.argv[1]))\n"
                               "kind = jsonschema.Draft202012Validator\n"
                               "kind.check_schema(schema)\n"
                               "for error in kind(schema).iter_errors(json.load(open(sys.argv[2]))):\n"
                               "    print(error.json_path, error.message)\n";
    Program python(
        {"python3", "-c", script, (source_folder() / "apps/towers" / schema).string(), file.string()});
    const Outcome outcome = python.end();
    if (outcome.code == 77 || outcome.code == 127)
        std::printf("SKIPPED the JSON schema: no validator (python3-jsonschema) is installed\n");
    else
        CHECK(outcome.code == 0);
    return outcome.code == 77 ? "" : outcome.out + outcome.err;
}

} // namespace towers::test
