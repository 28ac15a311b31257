package main

import (
	"errors"
	"testing"
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
