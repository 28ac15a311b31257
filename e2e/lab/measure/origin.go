package measure

import (
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Origin is where figures come from. It names the kind of machine, never the
// machine.
type Origin struct {
	Commit    string `json:"commit"`
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
}

// Here is the origin of what this process measures.
func Here() Origin {
	return Origin{
		Commit:    commit(),
		Processor: processor(),
		Cores:     runtime.NumCPU(),
		Kernel:    kernel(),
		Go:        strings.TrimPrefix(runtime.Version(), "go"),
	}
}

// commit names what is measured. Results that were written before do not count as a change.
func commit() string {
	told, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(told))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)e2e/*/results/*").Run() != nil {
		name += "+changes"
	}
	return name
}

func processor() string {
	table, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(table)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// kernel is the version without the builder's suffix.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	return unix.ByteSliceToString(name.Sysname[:]) + " " + version
}
