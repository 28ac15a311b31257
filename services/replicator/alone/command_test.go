package alone

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const phrase = "k7qd-92mf-xw3p-bt6h"

// called calls the command and returns its exit status and what it said, line by line.
func called(arguments ...string) (status int, lines []string) {
	var out, said bytes.Buffer
	status = Main(arguments, &out, &said)
	return status, strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
}

// Help of each command has what is so of it, and no default that is none.
func TestHelp(t *testing.T) {
	for command, hasAddresses := range map[string]bool{"send": true, "receive": false} {
		var out bytes.Buffer
		if status := Main([]string{command, "--help"}, &out, &out); status != exitOK {
			t.Errorf("%s --help ends with %d", command, status)
		}
		if strings.Contains(out.String(), "address of each receiver") != hasAddresses || strings.Contains(out.String(), "0B") {
			t.Errorf("help of %s:\n%s", command, &out)
		}
	}
}

// What cannot be is refused at once, in one line, and with the exit status for that.
func TestCalledWrongly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "object")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	sending := []string{"send", file, "--lan", "lo", "--key", phrase}
	receiving := []string{"receive", "--into", dir, "--lan", "lo", "--key", phrase}
	paper := []string{"send", file, "--lan", "lo", "--profile", "paper"}
	for _, tt := range []struct {
		arguments []string
		more      []string
		want      string
	}{
		{[]string{"send"}, nil, "accepts 1 arg(s)"},
		{[]string{"sendd"}, nil, `unknown command "sendd"`},
		{[]string{"sendd", file, "--lan", "lo"}, nil, `unknown command "sendd"`},
		{[]string{"receive", "here"}, nil, "here"},
		{[]string{"send", filepath.Join(dir, "missing"), "--lan", "lo"}, nil, "missing: no such file"},
		{[]string{"send", filepath.Join(dir, "missing"), "--lan", "lo", "--profile", "paper", "--group", "239.7.7.7:7431"}, nil, "missing: no such file"},
		{sending, []string{"--group", "10.0.0.1:5"}, "--group 10.0.0.1:5"},
		{sending, []string{"--group", "239.7.7.7"}, "--group 239.7.7.7"},
		{sending, []string{"--datagram", "100"}, "1232 to 8972"},
		{sending, []string{"--datagram", "90000"}, "1232 to 8972"},
		{sending, []string{"--receivers", "-1"}, "--receivers -1"},
		{sending, []string{"--patience", "-1s"}, "--patience -1s"},
		{sending, []string{"--wait", "-1s"}, "--wait -1s"},
		{sending, []string{"--ttl", "300"}, "--ttl 300"},
		{sending, []string{"--profile", "draft"}, "--profile draft"},
		{sending, []string{"--output", "xml"}, "it can be table or json"},
		{paper, []string{"--output", "json"}, "no receipts"},
		{sending, []string{"--disk-patience", "-1s"}, "--disk-patience -1s"},
		{sending, []string{"--record", ""}, "--record is empty"},
		{sending, []string{"--record", dir}, "--record: open " + dir + ": is a directory"},
		{sending, []string{"--record", filepath.Join(dir, "missing", "record")}, "no such file or directory"},
		{sending, []string{"--record", file}, "part of what is sent"},
		{[]string{"send", dir, "--lan", "lo", "--key", phrase}, []string{"--record", filepath.Join(dir, "record")}, "part of what is sent"},
		{paper, []string{"--group", "239.7.7.7:7431", "--record", filepath.Join(dir, "record")}, "--record: it means nothing in the paper profile"},
		{receiving, []string{"--await", "-1s"}, "--await -1s"},
		{receiving, []string{"--disk-patience", "-1s"}, "--disk-patience -1s"},
		{receiving, []string{"--patience", "0s"}, "--patience 0s"},
		{receiving, []string{"--name", ""}, "--name is empty"},
		{receiving, []string{"--name", strings.Repeat("n", 65)}, "--name has 65 bytes: it can have 64"},
		{receiving, []string{"--site", strings.Repeat("n", 65)}, "--site has 65 bytes"},
		{receiving, []string{"--name", "\xe9tage"}, `--name "\xe9tage"`},
		{receiving, []string{"--site", "\x1b[2J"}, `--site "\x1b[2J"`},
		{receiving, []string{"--state", filepath.Join(file, "state")}, "--state"},
		{[]string{"receive", "--into", file, "--lan", "lo", "--key", phrase}, nil, "no block device and no directory"},
		{[]string{"receive", "--into", filepath.Join(file, "below"), "--lan", "lo", "--key", phrase}, nil, "not a directory"},
		{[]string{"receive", "--into", "/dev/none-of-these", "--lan", "lo", "--key", phrase}, nil, "lsblk lists"},
		{[]string{"receive", "--into", "/dev/zero", "--lan", "lo", "--key", phrase, "--allow-device", "/dev/zero"}, nil, "no block device"},
		{receiving, []string{"--serial", "S3Z9NB0K"}, "no serial number"},
		{receiving, []string{"--lan", "none0"}, "'ip link' lists"},
		{sending, []string{"--lan", "none0"}, "'ip link' lists"},
		{paper, []string{"--group", "239.7.7.7:7431", "--lan", "none0"}, "'ip link' lists"},
		{paper, nil, "--group is missing"},
		{paper, []string{"--group", "239.7.7.7:7431", "--rate", "1MB"}, "--rate: it means nothing in the paper profile"},
		{paper, []string{"--group", "239.7.7.7:7431", "--receivers", "3"}, "--receivers: it means nothing in the paper profile"},
		{[]string{"send", "-", "--lan", "lo", "--key", phrase}, nil, "the paper profile alone"},
		{[]string{"receive", "--into", "-", "--lan", "lo", "--key", phrase}, nil, "streams of the paper profile alone"},
		{sending, []string{"--payload", "1024"}, "--payload: it means nothing in the fast profile"},
		{[]string{"receive", "--into", filepath.Join(dir, "new"), "--lan", "lo", "--profile", "paper", "--group", "239.7.7.7:7431"}, []string{"--await", "1s"}, "--await: it means nothing in the paper profile"},
		{paper, []string{"--group", "239.7.7.7:7431", "--payload", "70000"}, "--payload 70000: it can be 1 to 9205 on lo"},
		{paper, []string{"--group", "239.7.7.7:7431", "--payload", "-1"}, "--payload -1: it can be 1 to"},
		{paper, []string{"--group", "10.0.0.1:5"}, "--group 10.0.0.1:5"},
		{[]string{"send", dir, "--lan", "lo", "--profile", "paper", "--group", "239.7.7.7:7431"}, nil, "the paper profile sends one file"},
		{[]string{"send", "/dev/null", "--lan", "lo", "--profile", "paper", "--group", "239.7.7.7:7431"}, nil, "no plain file: the paper profile sends one file"},
		{[]string{"receive", "--into", "/dev/null", "--lan", "lo", "--profile", "paper", "--group", "239.7.7.7:7431"}, nil, "the paper profile makes a file"},
	} {
		status, lines := called(append(tt.arguments[:len(tt.arguments):len(tt.arguments)], tt.more...)...)
		if last := lines[len(lines)-1]; status != exitUsage || !strings.Contains(last, tt.want) || len(lines) != 1 {
			t.Errorf("%s %s: exit status %d, %q; want %q", tt.arguments, tt.more, status, lines, tt.want)
		}
	}
}

// The directory in which it is kept what is on a device is made before anything is received.
func TestStateIsMade(t *testing.T) {
	state := filepath.Join(t.TempDir(), "of", "devices")
	called("receive", "--into", t.TempDir(), "--lan", "lo", "--key", phrase, "--state", state, "--await", "10ms")
	if what, err := os.Stat(state); err != nil || !what.IsDir() {
		t.Error(err)
	}
}

// A receiver says at once why it will hear nothing.
func TestUnfitInterfaces(t *testing.T) {
	const fine = net.FlagUp | net.FlagRunning | net.FlagMulticast
	for _, tt := range []struct {
		device net.Interface
		want   string
	}{
		{net.Interface{Flags: fine, MTU: 1500}, ""},
		{net.Interface{Flags: fine &^ (net.FlagUp | net.FlagRunning), MTU: 1500}, "it is down"},
		{net.Interface{Flags: fine &^ net.FlagRunning, MTU: 1500}, "no carrier"},
		{net.Interface{Flags: fine &^ net.FlagMulticast, MTU: 1500}, "no multicast"},
		{net.Interface{Flags: fine, MTU: 1000}, "MTU of 1000"},
	} {
		if got := unfit(tt.device); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", tt.device, got, tt.want)
		}
	}
}

func TestTimes(t *testing.T) {
	if times(1) != "once" || times(2) != "2 times" {
		t.Errorf("%s, %s", times(1), times(2))
	}
}
