package server

import (
	"context"

	"github.com/kloop-dev/kloop/resource"
)

type Network struct{}
type Tokens interface{}
type Rules interface{}
type allocator struct{}

func (a *allocator) init(Network) {}

func (s *Server) begin(ctx context.Context, r *Request, obj, old resource.Object) (undo func(context.Context), err error) {
	return func(context.Context) {}, nil
}
func (s *Server) changed(ctx context.Context, r *Request, old, obj resource.Object) {}
func (s *Server) deleted(ctx context.Context, r *Request, obj resource.Object)      {}

func (s *Server) evict(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) token(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) reviewToken(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) reviewSelf(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) reviewAccess(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) reviewLocalAccess(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) reviewSelfAccess(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
func (s *Server) reviewRules(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	return nil, nil
}
