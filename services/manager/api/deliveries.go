package api

import (
	"cmp"
	"context"
	"fmt"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

type deliveryService struct {
	groupv1.UnimplementedDeliveryServiceServer
	server *Server
}

// find returns a delivery that the caller may see, and the desk that it is on.
func (d *deliveryService) find(ctx context.Context, prefix string) (*delivery.Desk, view.Delivery, error) {
	desk, err := d.server.desk()
	if err != nil {
		return nil, view.Delivery{}, err
	}
	if err := d.server.View.Sync(ctx); err != nil {
		return nil, view.Delivery{}, err
	}
	found, err := desk.Find(prefix, d.sees(ctx))
	return desk, found, err
}

// sees returns a function that tells whether the caller may see a group. There may be thousands of deliveries of one group: it is judged once.
func (d *deliveryService) sees(ctx context.Context) func(group string) bool {
	judged := make(map[string]bool)
	return func(group string) bool {
		sees, known := judged[group]
		if !known {
			sees = d.server.mayUse(ctx, group) == nil
			judged[group] = sees
		}
		return sees
	}
}

// findAs returns a delivery in which the caller may act as a member.
func (d *deliveryService) findAs(ctx context.Context, id, member string) (*delivery.Desk, view.Delivery, error) {
	desk, found, err := d.find(ctx, id)
	if err != nil {
		return nil, view.Delivery{}, err
	}
	return desk, found, d.server.mayBe(ctx, found.GetDelivery().GetGroup(), member)
}

func (d *deliveryService) CreateDelivery(ctx context.Context, req *groupv1.CreateDeliveryRequest) (*groupv1.CreateDeliveryResponse, error) {
	if err := d.server.mayBegin(ctx, req.GetGroup(), req.GetSender()); err != nil {
		return nil, err
	}
	desk, err := d.server.desk()
	if err != nil {
		return nil, err
	}
	return desk.Create(ctx, callerOf(ctx), req)
}

func (d *deliveryService) SealDelivery(ctx context.Context, req *groupv1.SealDeliveryRequest) (*groupv1.SealDeliveryResponse, error) {
	desk, found, err := d.findAs(ctx, req.GetDelivery(), req.GetSender())
	if err != nil {
		return nil, err
	}
	if sender := found.GetDelivery().GetSender(); sender != req.GetSender() {
		return nil, fmt.Errorf("seal delivery %s as %q: %w (its sender is %q)", found.ID(), req.GetSender(), errDenied, sender)
	}
	req.Delivery = found.ID()
	return desk.Seal(ctx, req)
}

func (d *deliveryService) RecordReceipt(ctx context.Context, req *groupv1.RecordReceiptRequest) (*groupv1.RecordReceiptResponse, error) {
	desk, found, err := d.findAs(ctx, req.GetDelivery(), req.GetMember())
	if err != nil {
		return nil, err
	}
	req.Delivery = found.ID()
	return desk.Record(ctx, req)
}

// CancelDelivery may be called by operators and the delivery's sender.
func (d *deliveryService) CancelDelivery(ctx context.Context, req *groupv1.CancelDeliveryRequest) (*groupv1.CancelDeliveryResponse, error) {
	desk, found, err := d.find(ctx, req.GetDelivery())
	if err != nil {
		return nil, err
	}
	if d.server.mayBe(ctx, found.GetDelivery().GetGroup(), found.GetDelivery().GetSender()) != nil {
		return nil, fmt.Errorf("cancel delivery %s: %w to %s (its sender, %s, and operators may)", found.ID(), errDenied, callerOf(ctx).InWords(), found.GetDelivery().GetSender())
	}
	return desk.Cancel(ctx, found.ID())
}

func (d *deliveryService) GetDelivery(ctx context.Context, req *groupv1.GetDeliveryRequest) (*groupv1.GetDeliveryResponse, error) {
	desk, found, err := d.find(ctx, req.GetDelivery())
	if err != nil {
		return nil, err
	}
	return &groupv1.GetDeliveryResponse{Delivery: desk.Show(found)}, nil
}

func (d *deliveryService) ListDeliveries(ctx context.Context, req *groupv1.ListDeliveriesRequest) (*groupv1.ListDeliveriesResponse, error) {
	if err := d.server.mayUse(ctx, req.GetGroup()); err != nil {
		if req.GetGroup() == "" {
			err = fmt.Errorf("deliveries of all groups: %w (it is for operators: name a group, or a delivery)", errDenied)
		}
		return nil, err
	}
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	desk, err := d.server.desk()
	if err != nil {
		return nil, err
	}
	if err := d.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	deliveries, last, more := desk.List(req.GetGroup(), after, limit, d.sees(ctx))
	if _, _, known := d.server.View.Group(req.GetGroup()); !known && req.GetGroup() != "" && len(deliveries) == 0 {
		return nil, fmt.Errorf("group %q %w", req.GetGroup(), ledger.ErrNotFound)
	}
	response := &groupv1.ListDeliveriesResponse{Deliveries: deliveries}
	if more {
		response.NextPageToken = pageToken(last)
	}
	return response, nil
}

func (d *deliveryService) WatchDelivery(req *groupv1.WatchDeliveryRequest, stream groupv1.DeliveryService_WatchDeliveryServer) error {
	desk, found, err := d.find(stream.Context(), req.GetDelivery())
	if err != nil {
		return err
	}
	return desk.Watch(stream.Context(), found.ID(), req.GetTree(), func(message *groupv1.WatchDeliveryResponse) error {
		return stream.Send(cmp.Or(message, &groupv1.WatchDeliveryResponse{}))
	})
}
