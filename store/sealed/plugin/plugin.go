// Package plugin speaks with key management plugins over gRPC on a local socket. It stands beside package sealed, so that a program
// without such plugins does not link gRPC.
package plugin

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// A Conn is a connection to a plugin. Its methods may be called from any goroutine.
type Conn struct{ conn *grpc.ClientConn }

// Dial sets up the connection to the plugin of that name at a socket's path. The plugin need not be there yet.
func Dial(name, path string) (*Conn, error) {
	conn, err := grpc.NewClient("passthrough:///"+name, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{})))
	if err != nil {
		return nil, fmt.Errorf("set up the connection to the plugin %s: %w", name, err)
	}
	return &Conn{conn}, nil
}

// Ask calls a method with a message in wire format and returns the answer's.
func (c *Conn) Ask(ctx context.Context, method string, in []byte) (out []byte, err error) {
	err = c.conn.Invoke(ctx, method, &in, &out)
	return out, err
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Codec passes messages on as they are: *[]byte.
type Codec struct{}

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name implements encoding.CodecV2.
func (Codec) Name() string { return proto.Name }
