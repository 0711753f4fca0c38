// Command simulator runs two simulated AOS-CX switches that are cabled as a pair, to try the operator without hardware. Both speak HTTPS on
// ports of the loopback address. A third port takes faults, and prints what the switches' console would:
//
//	curl 127.0.0.1:8440/show/1/vsx-status
//	curl -X POST '127.0.0.1:8440/fault/1/reboot'
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/kloop-dev/kloop/examples/vsx/lab"
)

func main() {
	port := flag.Int("port", 8440, "of the console; the switches have the next two")
	flag.Parse()
	l := lab.New(time.Now)
	failed := make(chan error)
	for i := range 2 {
		cert, fingerprint, err := certificate()
		if err != nil {
			log.Fatal(err)
		}
		at := fmt.Sprintf("127.0.0.1:%d", *port+1+i)
		listener, err := net.Listen("tcp", at)
		if err != nil {
			log.Fatal(err)
		}
		log.Printf("switch %d: https://%s, admin, admin, fingerprint %s", i+1, at, fingerprint)
		s := &http.Server{Handler: l.Switch(i), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
			ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(quiet{}, "", 0)}
		go func() { failed <- s.ServeTLS(listener, "", "") }()
	}
	console := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", *port), Handler: l.Console(), ReadHeaderTimeout: 10 * time.Second}
	log.Printf("console: http://%s", console.Addr)
	go func() { failed <- console.ListenAndServe() }()
	log.Fatal(<-failed)
}

// quiet drops what a server says of connections: a switch that is off ends them all.
type quiet struct{}

func (quiet) Write(b []byte) (int, error) { return len(b), nil }

// certificate makes one that signs itself, as switches have, and its fingerprint.
func certificate() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "8325"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	sum := sha256.Sum256(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, hex.EncodeToString(sum[:]), nil
}
