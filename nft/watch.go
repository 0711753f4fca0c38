package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watch returns a channel that gets a value after transactions on the packet filter of this network namespace, anybody's: one
// for many, when nobody reads. It ends with ctx. The kernel's filter lets nothing else through than the note that there is a new
// generation, so that large transactions cost their onlookers nothing.
func Watch(ctx context.Context) (<-chan struct{}, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a socket to watch nftables: %w", err)
	}
	if err := errors.Join(onlyGenerations(fd), unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch nftables: %w", err)
	}
	f := os.NewFile(uintptr(fd), "nftables")
	changed := make(chan struct{}, 1)
	context.AfterFunc(ctx, func() { f.Close() })
	buf := make([]byte, 4096)
	go follow(ctx, changed, func() error {
		_, err := f.Read(buf)
		return err
	})
	return changed, nil
}

// afterError passes before a socket is read again that could not be read.
const afterError = time.Second

// follow notes each message that is read, until ctx ends. What can't be read may be a change, too: more came than the socket holds
// (ENOBUFS), or the kernel is short of memory.
func follow(ctx context.Context, changed chan<- struct{}, read func() error) {
	for {
		err := read()
		if ctx.Err() != nil {
			return
		}
		select {
		case changed <- struct{}{}:
		default:
		}
		if err == nil || errors.Is(err, unix.ENOBUFS) {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(afterError):
		}
	}
}

// onlyGenerations drops all messages but those of a new generation. They come alone in their datagram.
func onlyGenerations(fd int) error {
	const typeOffset = 4
	var raw [2]byte
	binary.NativeEndian.PutUint16(raw[:], unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN)
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: typeOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(binary.BigEndian.Uint16(raw[:])), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}
