package uplink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// fading is a watch that says something every 5 s, until it has nothing more to say.
type fading struct {
	ctx  context.Context
	says []string // "" is a heartbeat
}

func (f *fading) Recv() (string, error) {
	if len(f.says) == 0 {
		<-f.ctx.Done()
		return "", f.ctx.Err()
	}
	time.Sleep(5 * time.Second)
	said := f.says[0]
	f.says = f.says[1:]
	return said, nil
}

// A watch on which heartbeats came, and none comes any more, is left; one without heartbeats goes on, however long it is silent.
func TestSilenceOfAWatchIsNoticed(t *testing.T) {
	for name, tt := range map[string]struct {
		says []string
		want error
		at   time.Duration
	}{
		"silent after a heartbeat": {[]string{"a", "", "b"}, errSilent, 3*5*time.Second + watchPatience},
		"no heartbeats":            {[]string{"a", "b"}, context.DeadlineExceeded, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begun, taken := time.Now(), 0
				stream, end, err := heed(ctx, func(ctx context.Context) (receiver[string], error) { return &fading{ctx, tt.says}, nil },
					func(said string) bool { return said == "" })
				defer end()
				for err == nil {
					if _, err = stream.Recv(); err == nil {
						taken++
					}
				}
				if !errors.Is(err, tt.want) || time.Since(begun) != tt.at || taken != len(tt.says) {
					t.Errorf("%v after %v and %d messages, want %v after %v and all", err, time.Since(begun), taken, tt.want, tt.at)
				}
			})
		})
	}
}
