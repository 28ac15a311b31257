package uplink

import (
	"context"
	"errors"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// WatchDelivery calls each with a delivery as it is, and again as it changes, until it
// has ended, or ctx is done. Broken connections and changing leaders are survived.
func (u *Uplink) WatchDelivery(ctx context.Context, id string, each func(*groupv1.Delivery) error) error {
	err := u.attend(ctx, "watch delivery", func(ctx context.Context) error {
		stream, err := groupv1.NewDeliveryServiceClient(u).WatchDelivery(ctx, &groupv1.WatchDeliveryRequest{Delivery: id})
		if err != nil {
			return err
		}
		for {
			message, err := stream.Recv()
			if err != nil {
				return err
			}
			delivery := message.GetDelivery()
			if delivery == nil {
				continue // a heartbeat
			}
			if err := each(delivery); err != nil {
				return &callerError{err}
			}
			if delivery.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING {
				return &callerError{errEnded}
			}
		}
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// errEnded ends the watch of what has ended.
var errEnded = errors.New("it has ended")
