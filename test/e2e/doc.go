// Package e2e runs real clusters: real containers on one or two nodes, each node in a network namespace of its own,
// and unmodified kubectl and client-go against them. It needs root, bin/kloop, bin/kubectl and the images of
// scripts/image-nginx; make test prepares all that.
package e2e
