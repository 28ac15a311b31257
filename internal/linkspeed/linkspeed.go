// Package linkspeed says how fast network interfaces are, by what their drivers state.
package linkspeed

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Interfaces is where the kernel tells of network interfaces.
const Interfaces = "/sys/class/net"

// Presumed is the speed, in bytes per second, of an interface that states none: 10 Gbit/s.
const Presumed = 1.25e9

// Stated returns how many bytes a second an interface of a directory, as Interfaces, says that it can send; 0 if it
// does not say. Virtual interfaces state what they like: see IsPhysical.
func Stated(dir, device string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(device), "speed"))
	if err != nil {
		return 0
	}
	megabits, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || megabits <= 0 {
		return 0
	}
	return uint64(megabits) * 1e6 / 8
}

// IsPhysical reports whether an interface is hardware, or consists of several that are bonded.
func IsPhysical(dir, device string) bool {
	at := filepath.Join(dir, filepath.Base(device))
	return exists(filepath.Join(at, "device")) || exists(filepath.Join(at, "bonding"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
