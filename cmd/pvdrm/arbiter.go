package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/backend/sched"
)

func newArbiter(g *global) *cobra.Command {
	var socket string
	policy := arbiter.DefaultPolicy
	c := &cobra.Command{
		Use:   "arbiter --socket SOCKET",
		Short: "Share one GPU among the backends of several guests",
		Long: `Hand out the right to run on a GPU to the backends that join, until interrupted. Each
backend says its weight; while only one has work it runs as if it were alone. The
policies are ` + strings.Join(sched.Names(), ", ") + `.

The arbiter serves backends of the same user. If it ends, they go on alone (or wait,
with --wait-for-arbiter) and join again when it is back.`,
		Example: "  pvdrm arbiter --socket /tmp/arbiter &\n" +
			"  pvdrm up --arbiter /tmp/arbiter --guest a --weight 3 -- gdev run --repeat 10 mmul &\n" +
			"  pvdrm up --arbiter /tmp/arbiter --guest b --weight 1 -- gdev run --repeat 10 mmul",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if socket == "" {
				return usageError{errors.New("give --socket")}
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			s, err := arbiter.NewServer(arbiter.Config{GPUs: []arbiter.GPU{{Policy: policy}}, Log: log})
			if err != nil {
				return usageError{fmt.Errorf("--policy: %w", err)}
			}
			const ownerOnly = 0o600
			l, err := arbiter.Listen(socket, ownerOnly)
			if err != nil {
				return err
			}
			log.Info("waiting for backends", zap.String("socket", socket), zap.String("policy", policy))
			return s.Serve(c.Context(), l)
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "path of the socket to make, for backends")
	c.Flags().StringVar(&policy, "policy", policy, "who runs next: "+strings.Join(sched.Names(), ", "))
	return c
}
