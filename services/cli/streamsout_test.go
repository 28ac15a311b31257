package cli

import (
	"bytes"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// What a member had written before its session expired is not written again; another stream is.
func TestStreamGoesOnOnStandardOutput(t *testing.T) {
	var to bytes.Buffer
	out := &streamsOut{to: &to, written: make(map[string]uint64)}
	receive := func(delivery string, parts ...string) {
		stream, err := out.open(sdk.Incoming{ID: delivery})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if n, err := stream.Write([]byte(part)); n != len(part) || err != nil {
				t.Errorf("write %q: %d, %v", part, n, err)
			}
		}
		if datagrams := stream.(sdk.DatagramWriter); datagrams.WriteDatagram(sdk.Datagram{Payload: []byte(".")}) != nil {
			t.Error("a datagram was not written")
		}
	}
	receive("one", "ab", "c")
	receive("one", "a")
	receive("one", "ab", "cd", "e")
	receive("two", "xy")
	out.forget("one")
	receive("one", "again")
	if want := "abc..de.xy.again."; to.String() != want {
		t.Errorf("wrote %q, want %q", &to, want)
	}
}
