package uplink

import (
	"context"
	"errors"
	"time"
)

// watchPatience is how long a manager may be silent on a watch: three of its heartbeats.
const watchPatience = 15 * time.Second

// heeding is the stream of a watch that ends once the manager has been silent for too long: the connection may lead to a manager that still
// answers pings, and has lost what it passes on. It counts from the first heartbeat on: before that, the manager may still be reading its store.
type heeding[M any] struct {
	from        receiver[M]
	ctx         context.Context
	cut         context.CancelCauseFunc
	isHeartbeat func(M) bool
	beats       bool
}

// heed opens the stream of a watch. Its end is called when it is no longer used.
func heed[M any](ctx context.Context, open func(context.Context) (receiver[M], error), isHeartbeat func(M) bool) (stream *heeding[M], end func(), err error) {
	ctx, cut := context.WithCancelCause(ctx)
	from, err := open(ctx)
	return &heeding[M]{from: from, ctx: ctx, cut: cut, isHeartbeat: isHeartbeat}, func() { cut(nil) }, err
}

func (h *heeding[M]) Recv() (M, error) {
	if h.beats {
		silence := time.AfterFunc(watchPatience, func() { h.cut(errSilent) })
		defer silence.Stop()
	}
	message, err := h.from.Recv()
	if err != nil && errors.Is(context.Cause(h.ctx), errSilent) {
		return message, errSilent
	}
	h.beats = h.beats || err == nil && h.isHeartbeat(message)
	return message, err
}
