package replicator

import (
	"context"
	"errors"
	"fmt"
	"io"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// Members of groups have no block devices: what session agents carry onto one is a stream, of a device or a file.

// content reads a source from its first byte to its last.
type content struct {
	send.Opened
	at uint64
}

func (c *content) Read(p []byte) (int, error) {
	left := c.Info().Length - c.at
	if left == 0 {
		return 0, c.end()
	}
	p = p[:min(uint64(len(p)), left)]
	if err := c.ReadAt(p, c.at); err != nil {
		return 0, err
	}
	c.at += uint64(len(p))
	return len(p), nil
}

// end says that all was read, if it is still what it was.
func (c *content) end() error {
	if err := c.Changed(); err != nil {
		return err
	}
	return io.EOF
}

// content opens what a task names to be read as a stream.
func (w *worker) content(ctx context.Context, task *replicav1.SendTask) (*content, error) {
	from, err := w.places.source(ctx, task.GetPath(), task.GetSkipUnused())
	if err != nil {
		return nil, err
	}
	if from.Info().Kind != object.File {
		return nil, errors.Join(fmt.Errorf("%w: %s is a directory, and goes onto no device", errNotAllowed, task.GetPath()), from.Close())
	}
	return &content{Opened: from}, nil
}

// overwriting is a device that a stream overwrites, from its first byte on, whatever of it is there.
type overwriting struct {
	*device.Landing
	landed func(bytes uint64)
}

// overwrite opens the device that a task names for what comes to it.
func (w *worker) overwrite(ctx context.Context, j *job, task *replicav1.ReceiveTask, in sdk.Incoming) (sdk.StreamWriter, error) {
	target := w.places.target(task.GetPath(), task.GetDeviceSerial())
	target.Anew = true
	landing, err := device.Await(ctx, target, device.Content(in.Name, task.GetLength()))
	if err != nil {
		return nil, err
	}
	flow := w.flow(j)
	flow(in, 0) // nothing that was there is of use
	return &overwriting{landing, func(bytes uint64) { flow(in, bytes) }}, nil
}

func (o *overwriting) Write(p []byte) (int, error) {
	n, err := o.Landing.Write(p)
	o.landed(o.Offset())
	return n, err
}

// Sync has all be on the device, and be read back from there. It is called when all has come, and was found to be what was sent.
func (o *overwriting) Sync() error { return o.Complete(o.Offset(), o.Root(), true) }

// CloseWithError leaves what is there.
func (o *overwriting) CloseWithError(error) error { return o.Keep() }

// Close ends it, after Sync.
func (o *overwriting) Close() error { return o.Keep() }
