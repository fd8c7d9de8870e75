// The environment's variables for tests.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace towers::test {

/// Sets environment variables, and restores them at the end.
class Environment {
public:
    void set(const char* name, const char* value) {
        if (!before_.contains(name)) {
            const char* const before = std::getenv(name);
            before_[name] = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
        }
        if (value != nullptr)
            setenv(name, value, 1);
        else
            unsetenv(name);
    }
    ~Environment() {
        for (const auto& [name, value] : before_)
            if (value)
                setenv(name.c_str(), value->c_str(), 1);
            else
                unsetenv(name.c_str());
    }

private:
    std::map<std::string, std::optional<std::string>> before_;
};

} // namespace towers::test
