package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// closing is how long an orderly end may take in addition to the wait for calls: in this time the managers close their store.
const closing = 50 * time.Second

// readyInterval is how often to check whether the service can do its work, to tell systemd.
const readyInterval = 200 * time.Millisecond

// tellSystemd tells systemd, if that has started this process and wants to know (Type=notify), when the service has begun,
// and keeps its status true until it stops: "ready", or what is in the way. A service that waits for others, as an agent for its
// managers, has begun. When it stops, it tells systemd how long that may take, whatever the unit says: what a stop waits for is a setting.
func (a *Admin) tellSystemd(ctx context.Context, log *slog.Logger, stopWait time.Duration) {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	told, begun := "", false
	for {
		problem := a.IsReady()
		news, status := "", "ready"
		if problem != nil {
			status = strings.ReplaceAll(problem.Error(), "\n", "; ")
		}
		if !begun && !errors.Is(problem, errStarting) {
			begun, news = true, systemd.SdNotifyReady+"\n"
		}
		if news != "" || status != told {
			wanted, err := systemd.SdNotify(false, fmt.Sprintf("%sSTATUS=%s", news, status))
			if err != nil {
				log.Warn("systemd cannot be told how this service is", "error", err)
			}
			if err != nil || !wanted {
				return
			}
			told = status
		}
		select {
		case <-ctx.Done():
			stopping := fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", systemd.SdNotifyStopping, (stopWait + closing).Microseconds())
			_, _ = systemd.SdNotify(false, stopping) // if this fails, systemd sees the process end anyway
			return
		case <-a.stopped:
			return
		case <-tick.C:
		}
	}
}
