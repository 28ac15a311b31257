package main

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// What cannot be shown on a machine is left out there. In CI it is an error, which says what was left out, and why.
func TestWhatIsLeftOut(t *testing.T) {
	why := errors.New("there are no TUN devices")
	for ci, want := range map[string]string{"": "", "true": "left out: the four clients: there are no TUN devices"} {
		t.Setenv("CI", ci)
		said := ""
		if err := leaveOut("the four clients", why); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("with CI=%s it ends with %q, want %q", ci, said, want)
		}
	}
}

// Who had less than nine tenths of the target is told.
func TestWhoLacks(t *testing.T) {
	const before = `[{"name": "a", "receivedBytes": "1000000", "share": {"targetBytesPerSecond": "300000"}}]`
	const after = `[{"name": "a", "receivedBytes": "2000000", "share": {"targetBytesPerSecond": "300000"}},
		{"name": "b", "receivedBytes": "1100000", "share": {"targetBytesPerSecond": "300000"}}, {"name": "c", "receivedBytes": "0"}]`
	lacking, err := lack(before, after, 4*time.Second)
	if err != nil || !slices.Equal(lacking, []string{"a"}) {
		t.Errorf("%q lack their targets, %v", lacking, err)
	}
	if said, want := conclude(lacking), "Over these 4s less than nine tenths of their targets had: a."; said != want {
		t.Errorf("%q, want %q", said, want)
	}
	if said, want := conclude(nil), "All had their targets over these 4s."; said != want {
		t.Errorf("%q, want %q", said, want)
	}
}
