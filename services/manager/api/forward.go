package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/groupcast/groupcast/internal/identity"
)

// forwardUnary has the leader carry out a call.
func (s *Server) forwardUnary(ctx context.Context, method string, req any) (proto.Message, error) {
	connection, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	_, newResponse, err := messagesOf(method)
	if err != nil {
		return nil, err
	}
	ctx, err = s.asCaller(ctx)
	if err != nil {
		return nil, err
	}
	response := newResponse()
	if err := connection.Invoke(ctx, method, req, response); err != nil {
		return nil, leaderGone(ctx, err)
	}
	return response, nil
}

// forwardStream passes the messages of a stream to the leader and back.
func (s *Server) forwardStream(stream grpc.ServerStream, method string) error {
	passing, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	ctx := passing
	connection, err := s.leader(ctx)
	if err != nil {
		return err
	}
	newRequest, newResponse, err := messagesOf(method)
	if err != nil {
		return err
	}
	ctx, err = s.asCaller(ctx)
	if err != nil {
		return err
	}
	upstream, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return leaderGone(stream.Context(), err)
	}
	go func() {
		if err := pump(newRequest, stream.RecvMsg, upstream.SendMsg); err == nil {
			upstream.CloseSend()
		} else {
			cancel(err)
		}
	}()
	err = pump(newResponse, upstream.RecvMsg, stream.SendMsg)
	if ended := context.Cause(passing); err != nil && errors.Is(ended, errRevoked) { // as the caller's last message has shown
		return ended
	}
	return leaderGone(stream.Context(), err)
}

// leaderGone turns what a caller sees when the connection to an earlier leader ends, or none comes about, into an error that is worth a retry,
// by another manager if there is one. What the leader itself says has a reason, and stays as it is.
func leaderGone(ctx context.Context, err error) error {
	switch said := status.Convert(err); {
	case said.Code() == codes.Canceled && ctx.Err() == nil:
		return fmt.Errorf("%w: the connection to the leader has ended", errNoLeader)
	case said.Code() == codes.Unavailable && len(said.Details()) == 0:
		return fmt.Errorf("%w: the leader is not reached: %s", errNoLeader, said.Message())
	}
	return err
}

// pump passes messages on until one side ends; a regular end is nil.
func pump(newMessage func() proto.Message, receive, send func(any) error) error {
	for {
		message := newMessage()
		if err := receive(message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := send(message); err != nil {
			return err
		}
	}
}

// leader returns the connection to the manager that leads. A call that was passed on once is not passed on again: leaders can change, and calls
// must not go in circles.
func (s *Server) leader(ctx context.Context) (*grpc.ClientConn, error) {
	if hasCaller(ctx) {
		return nil, errNoLeader
	}
	connection := s.Leading.Connection()
	if connection == nil {
		return nil, errNoLeader
	}
	return connection, nil
}

// isPassedOn reports whether another manager passes the call on. Others may send the header, too: it means nothing then.
func (s *Server) isPassedOn(ctx context.Context) bool {
	return hasCaller(ctx) && s.isPeer(ctx, identity.Manager)
}

func hasCaller(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, callerHeader)) > 0
}

// asCaller names the caller to the leader, which checks the caller as if it had called there.
func (s *Server) asCaller(ctx context.Context) (context.Context, error) {
	caller, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, callerHeader, s.formatCaller(caller)), nil
}

// messagesOf returns functions that make the messages of a method, such as /groupcast.group.v1.GroupService/GetGroup.
func messagesOf(method string) (newRequest, newResponse func() proto.Message, err error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("forward %s: %w", method, err)
	}
	descriptor, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, nil, fmt.Errorf("forward %s: not a method", method)
	}
	request, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Input().FullName())
	if err != nil {
		return nil, nil, fmt.Errorf("forward %s: %w", method, err)
	}
	response, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Output().FullName())
	if err != nil {
		return nil, nil, fmt.Errorf("forward %s: %w", method, err)
	}
	return func() proto.Message { return request.New().Interface() },
		func() proto.Message { return response.New().Interface() }, nil
}
