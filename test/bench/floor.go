package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// floorArg makes this program the server of the floor.
const floorArg = "floor"

// floorEvent is as long as the event of a small Secret.
var floorEvent = strings.Repeat("x", 620) + "\n"

// floor measures by f what the kernel and TLS take, however well the server does: of a process that knows nothing. See floorMain.
func (b *bench) floor(ctx context.Context, f func(ctx context.Context, floor *bench) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, floorArg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cancel(); cmd.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no address: %w", err)
	}
	floor := *b
	floor.target = &target{processes: processes{cmd.Process.Pid}, cfg: &rest.Config{}, host: strings.TrimSpace(address), tls: ownTLS}
	if len(b.processes) == 0 {
		floor.processes = nil
	}
	return f(ctx, &floor)
}

// floorMain serves the floor until it is killed: a GET receives each PUT, or as many bytes as the path says.
func floorMain() error {
	cert, err := ownCertificate()
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := &floorServer{}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go s.serve(c)
	}
}

// floorServer knows the connections to write to.
type floorServer struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (s *floorServer) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			c.Close()
			return
		}
		if req.Method == http.MethodGet {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
			if n, err := strconv.Atoi(req.URL.Path[1:]); err == nil {
				for chunk := make([]byte, 32<<10); n > 0 && err == nil; n -= len(chunk) {
					_, err = c.Write(chunk[:min(n, len(chunk))])
				}
				c.Close()
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			continue
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		s.tell()
	}
}

func (s *floorServer) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	event := []byte(floorEvent)
	s.conns = slices.DeleteFunc(s.conns, func(c net.Conn) bool {
		_, err := c.Write(event)
		return errors.Is(err, net.ErrClosed)
	})
}

// ownCertificate makes one that nobody has signed.
func ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
