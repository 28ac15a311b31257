// Package version knows which build this is.
package version

import "runtime/debug"

// number is set by the linker: -X github.com/groupcast/groupcast/internal/version.number=v1.2.3
var number = "dev"

// String returns the version, with the commit if the build knows it: go build in a clone does, services/build.sh does not.
func String() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return number
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return number + "+" + setting.Value[:12]
		}
	}
	return number
}
