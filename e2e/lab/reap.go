package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerVariable marks every program that a lab starts, and what that program starts, with the
// process number and start time of the lab's owner. So a daemon that outlived a crashed owner is
// recognized, and a process number that is used again is not mistaken for the owner.
const ownerVariable = "GROUPCAST_LAB_OWNER"

func owner() string {
	pid := os.Getpid()
	return fmt.Sprintf("%d.%s", pid, startTime(pid))
}

// startTime is field 22 of /proc/PID/stat, or "" if there is no such process.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, fields, _ := bytes.Cut(stat, []byte(") "))
	columns := strings.Fields(string(fields))
	if len(columns) < 20 {
		return ""
	}
	return columns[19]
}

// reap kills the programs whose lab is gone. Nothing else can be left: devices
// and mounts live in namespaces that no one but those programs holds.
func reap() error {
	for _, pid := range processes() {
		mark := ownerOf(pid)
		if mark == "" || alive(mark) {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}

func ownerOf(pid int) string {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(ownerVariable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

func alive(mark string) bool {
	number, start, _ := strings.Cut(mark, ".")
	pid, err := strconv.Atoi(number)
	return err == nil && start != "" && startTime(pid) == start
}

func processes() []int {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, folder := range folders {
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killInside ends every process whose network is that of s.
func killInside(s *space) {
	ours, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", s.net.Fd()))
	if err != nil {
		return
	}
	for _, pid := range processes() {
		theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil && os.SameFile(ours, theirs) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
