package link_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/internal/link"
)

// In plaintext the kernel moves every byte from the file into the socket, and from the socket into the file, on each stripe of a
// link. With TLS bytes pass through buffers.
func TestPlaintextIsNotCopied(t *testing.T) {
	for _, stripes := range []int{1, 4} {
		for _, plaintext := range []bool{true, false} {
			t.Run(fmt.Sprintf("plaintext=%t stripes=%d", plaintext, stripes), func(t *testing.T) {
				toSend, thatCame := link.CountBuffers(t)
				s := newStriped(t)
				file, content := randomFile(t, 8<<20+5)
				store := newSink(emptyFile(t), 0, 4<<20)
				if fed, taken := s.transfer(stripes, plaintext, 0, &source{file: file, length: uint64(len(content))}, store); fed != nil || taken != nil {
					t.Fatalf("fed: %v; taken: %v", fed, taken)
				}
				s.wantArrived(store, content)
				if copied := toSend.Load() > 0; copied == plaintext {
					t.Errorf("what is sent is copied: %t", copied)
				}
				if copied := thatCame.Load() > 0; copied == plaintext {
					t.Errorf("what comes is copied: %t", copied)
				}
			})
		}
	}
}
