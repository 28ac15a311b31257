package alone

import (
	"bytes"
	"io"
	"os"
	"time"
)

const (
	// saidAhead is how much of what is said may wait for a terminal that takes nothing, as after Ctrl-S, or for a disk that hangs.
	saidAhead = 256
	// saidPatience is how long to wait at last until all was said.
	saidPatience = time.Second
)

// beside writes beside its callers: what is said of a replication, while others wait for it, holds it up for nobody who does not take it.
// What does not fit any more is left out.
type beside struct {
	to    io.Writer
	parts chan part
	ended chan struct{}
}

// part is a text to write or, with written, nothing: that is closed once all before it was written.
type part struct {
	text    []byte
	written chan struct{}
}

func writeBeside(to io.Writer) *beside {
	b := &beside{to, make(chan part, saidAhead), make(chan struct{})}
	go b.run()
	return b
}

func (b *beside) run() {
	for {
		select {
		case <-b.ended:
			return
		case one := <-b.parts:
			if one.written != nil {
				close(one.written)
				continue
			}
			_, _ = b.to.Write(one.text) // there is nobody else to tell
		}
	}
}

// end is flush once nothing more is to be written.
func (b *beside) end() {
	b.flush()
	close(b.ended)
}

// Write never waits.
func (b *beside) Write(text []byte) (int, error) {
	select {
	case b.parts <- part{text: bytes.Clone(text)}:
	default:
	}
	return len(text), nil
}

// flush waits until all was written, but not for long.
func (b *beside) flush() {
	written, late := make(chan struct{}), time.NewTimer(saidPatience)
	defer late.Stop()
	select {
	case b.parts <- part{written: written}:
	case <-late.C:
		return
	}
	select {
	case <-written:
	case <-late.C:
	}
}

// fileOf returns the file that is written to, if it is one.
func fileOf(to io.Writer) (file *os.File, is bool) {
	if b, isBeside := to.(*beside); isBeside {
		to = b.to
	}
	file, is = to.(*os.File)
	return file, is
}
