package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// OpenUpload begins an upload, or goes on with one.
func (s *Server) OpenUpload(ctx context.Context, request *gatherv1.OpenUploadRequest) (*gatherv1.OpenUploadResponse, error) {
	opened, err := s.Roster.Open(ctx, request.GetSession(), callerOf(ctx), specOf(request.GetSpec()), request.GetReplace())
	switch {
	case err != nil:
		return nil, err
	case opened.Existing != nil:
		return &gatherv1.OpenUploadResponse{ExistingRoot: opened.Existing[:]}, nil
	}
	return &gatherv1.OpenUploadResponse{
		Upload: hex.EncodeToString(opened.Upload.ID[:]), Offset: opened.Offset,
		Addresses: s.Addresses, Ticket: opened.Ticket, Plaintext: s.Plaintext, Gatherer: s.Name,
	}, nil
}

// FindFiles returns the roots of those files that are there already.
func (s *Server) FindFiles(ctx context.Context, request *gatherv1.FindFilesRequest) (*gatherv1.FindFilesResponse, error) {
	var specs []sink.Spec
	for _, spec := range request.GetSpecs() {
		specs = append(specs, specOf(spec))
	}
	roots, err := s.Roster.Find(ctx, request.GetSession(), callerOf(ctx), specs)
	if err != nil {
		return nil, err
	}
	answer := &gatherv1.FindFilesResponse{ExistingRoots: make([][]byte, len(roots))}
	for i, root := range roots {
		if root != nil {
			answer.ExistingRoots[i] = root[:]
		}
	}
	return answer, nil
}

func specOf(message *gatherv1.UploadSpec) sink.Spec {
	spec := sink.Spec{
		Path: message.GetPath(), Stream: message.GetStream(), Bundle: message.GetBundle(),
		Info: object.Info{
			Name: path.Base(message.GetPath()), Kind: object.File, Length: message.GetLength(),
			Mode: fs.FileMode(message.GetMode()) & fs.ModePerm, Time: message.GetSourceTime().AsTime(),
		},
	}
	if spec.Stream {
		spec.Info.Length = 0
	}
	return spec
}

// FinishUpload returns when the upload is durable.
func (s *Server) FinishUpload(ctx context.Context, request *gatherv1.FinishUploadRequest) (*gatherv1.FinishUploadResponse, error) {
	id, err := hex.DecodeString(request.GetUpload())
	if err != nil || len(id) != len(wire.DeliveryID{}) {
		return nil, fmt.Errorf("%w: upload %.80q is not 32 hexadecimal digits", errInvalid, request.GetUpload())
	}
	if len(request.GetRoot()) != len(object.Root{}) {
		return nil, fmt.Errorf("%w: a root of %d bytes: want %d", errInvalid, len(request.GetRoot()), len(object.Root{}))
	}
	path, err := s.Roster.Finish(ctx, request.GetSession(), callerOf(ctx), wire.DeliveryID(id), request.GetLength(), object.Root(request.GetRoot()))
	if err != nil {
		return nil, err
	}
	return &gatherv1.FinishUploadResponse{Path: path}, nil
}
