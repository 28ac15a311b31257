package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk/gather"
)

// partingPatience is how long an interrupted stream goes on while nothing gets through.
const partingPatience = 5 * time.Second

// parting ends an interrupted stream if the rest of it does not get through.
type parting struct {
	interrupted context.Context
	stop        context.CancelCauseFunc
	last        gather.Progress
	moved       time.Time // when something got through, or it was interrupted
}

// heard is called a few times a second.
func (l *parting) heard(p gather.Progress) {
	if l.interrupted.Err() == nil || l.moved.IsZero() || p.Sent != l.last.Sent || p.Stored != l.last.Stored {
		l.moved = time.Now()
	}
	l.last = p
	if l.interrupted.Err() != nil && (!p.Attached || p.Paused != "" || time.Since(l.moved) >= partingPatience) {
		l.stop(errInterrupted)
	}
}

// words says what is missing of a stream that has ended that way.
func (l *parting) words(followed bool) string {
	missing := l.last.Length - min(l.last.Stored, l.last.Length)
	switch {
	case l.last.Length == 0 && l.last.Detached != "":
		return "interrupted: nothing was uploaded: not connected: " + l.last.Detached
	case l.last.Length == 0:
		return "interrupted: nothing was uploaded"
	case missing == 0:
		return "interrupted: all that was read is at the gatherer"
	case followed:
		return "interrupted: " + bytesize.Short(missing) + " of what was read are not at the gatherer; the same command goes on there"
	}
	return "interrupted: " + bytesize.Short(missing) + " of what was read are not at the gatherer, and are lost"
}

// hear notes how the upload stands. The last progress of a tree no longer counts files that were under way.
func (u *uploading) hear(p gather.Progress) {
	u.drawing.Lock()
	defer u.drawing.Unlock()
	if !p.Ended || p.Files == 0 {
		u.heard = p
	}
}

// words says how far an interrupted upload of files came.
func (u *uploading) words() string {
	u.drawing.Lock()
	defer u.drawing.Unlock()
	p := u.heard
	how := bytesize.Short(p.Sent) + " of " + bytesize.Short(p.Length)
	switch {
	case p.Sent == 0 && p.FilesDone == 0 && p.Detached != "":
		return "interrupted: nothing was uploaded: not connected: " + p.Detached
	case p.Sent == 0 && p.FilesDone == 0:
		return "interrupted: nothing was uploaded"
	case p.Files > 0:
		how = fmt.Sprintf("%d of %s, and %s,", p.FilesDone, plural(p.Files, "file"), how)
	}
	return "interrupted: " + how + " were sent; the same command goes on from there"
}
