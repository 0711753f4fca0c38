package server

import (
	"context"

	"github.com/kloop-dev/kloop/resource"
)

type Tokens interface{}
type Rules interface{}

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
