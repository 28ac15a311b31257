package uplink

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// WatchDelivery calls each with a delivery as it is now, without its tree, and again whenever it
// changes, until it has ended or ctx is done. It survives broken connections and changing leaders.
func (u *Uplink) WatchDelivery(ctx context.Context, id string, each func(*groupv1.Delivery) error) error {
	return u.watchDelivery(ctx, &groupv1.WatchDeliveryRequest{Delivery: id}, each)
}

// WatchDeliveryTree is WatchDelivery with the whole tree each time.
func (u *Uplink) WatchDeliveryTree(ctx context.Context, id string, each func(*groupv1.Delivery) error) error {
	return u.watchDelivery(ctx, &groupv1.WatchDeliveryRequest{Delivery: id, Tree: true}, each)
}

func (u *Uplink) watchDelivery(ctx context.Context, request *groupv1.WatchDeliveryRequest, each func(*groupv1.Delivery) error) error {
	var tree toldTree
	return watchWhole(ctx, u, "watch delivery",
		func(ctx context.Context) (receiver[*groupv1.WatchDeliveryResponse], error) {
			return groupv1.NewDeliveryServiceClient(u).WatchDelivery(ctx, request)
		},
		func(message *groupv1.WatchDeliveryResponse) (ended bool, err error) {
			delivery := message.GetDelivery()
			if delivery == nil {
				return false, nil // a heartbeat
			}
			tree.complete(message)
			return delivery.GetState() != groupv1.DeliveryState_DELIVERY_STATE_RUNNING, each(delivery)
		})
}

// toldTree is the tree of a delivery as it was last told.
type toldTree struct {
	nodes    []*groupv1.TreeNode
	changes  []*groupv1.TreeChange
	clusters []*groupv1.TreeCluster
}

// complete puts the tree into a message that has only changes of it.
func (t *toldTree) complete(message *groupv1.WatchDeliveryResponse) {
	delivery := message.GetDelivery()
	if !message.GetTreeUnchanged() {
		t.nodes, t.changes, t.clusters = delivery.GetTree(), delivery.GetTreeChanges(), delivery.GetTreeClusters()
		return
	}
	t.nodes = slices.Clone(t.nodes) // the earlier nodes belong to the caller
	for _, node := range message.GetNodes() {
		if place := int(node.GetPlace()); place < len(t.nodes) {
			t.nodes[place] = proto.CloneOf(t.nodes[place])
			t.nodes[place].Bytes, t.nodes[place].BytesPerSecond = node.GetBytes(), node.GetBytesPerSecond()
		}
	}
	delivery.Tree, delivery.TreeChanges, delivery.TreeClusters = t.nodes, t.changes, t.clusters
}

// watchWhole is for watches in which each message shows the whole of a thing, or is an empty heartbeat. It takes the
// messages, over broken connections, until take says that the thing has ended.
func watchWhole[M proto.Message](ctx context.Context, u *Uplink, what string, open func(context.Context) (receiver[M], error), take func(M) (ended bool, err error)) error {
	isHeartbeat := func(message M) bool { return proto.Size(message) == 0 }
	err := u.attend(ctx, what, func(ctx context.Context) error {
		stream, end, err := heed(ctx, open, isHeartbeat)
		defer end()
		if err != nil {
			return err
		}
		for {
			message, err := stream.Recv()
			if err != nil {
				return err
			}
			ended, err := take(message)
			if err != nil {
				return &callerError{err}
			}
			if ended {
				return &callerError{errEnded}
			}
		}
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// errEnded ends the watch of something that has ended.
var errEnded = errors.New("it has ended")
