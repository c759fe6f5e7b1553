/*
 * A server in each block: accepts a connection, answers its requests until it ends, and
 * accepts the next one. A request that begins with four bytes 0xff ends the block.
 */
#pragma once
#include "loop.h"

namespace net = gloop::net;

struct Server {
	u32 ip, port; /* 0: any that is free, for each block */
	u8 *room;     /* of each physical block: a request and an answer */
	u32 in, out;  /* bytes of them */
	i64 *failed;
};

FN u8 *serverRoom(const Server &p) { return p.room + (u64)block() * (p.in + p.out); }

FN void serverFail(const Server &p, i64 error) {
	if (thread() == 0 && p.failed[0] == 0)
		p.failed[0] = error;
}

template <class Answer> static __device__ void serverAccept(Loop &loop, Server p, int server, Answer answer);

template <class Answer> static __device__ void serverSend(Loop &loop, Server p, int server, int connection, Answer answer);

/* Takes a request and has answer(loop, request, response, then) compute. */
template <class Answer> static __device__ void serverReceive(Loop &loop, Server p, int server, int connection, Answer answer) {
	u8 *room = serverRoom(p);
	net::receiveAll(loop, connection, p.in, room, [=](Loop &loop, i64 n) {
		bool ends = n == p.in && *(const volatile u32 *)room == ~0u;
		if (n != p.in || ends) {
			if (n < 0 && n != -104) /* ECONNRESET is the client's */
				serverFail(p, n);
			net::close(loop, connection, [=](Loop &loop, int) {
				if (ends)
					net::unbind(loop, server, [=](Loop &, int) {});
				else
					serverAccept(loop, p, server, answer);
			});
			return;
		}
		answer.start(loop, p, server, connection);
	});
}

template <class Answer> static __device__ void serverSend(Loop &loop, Server p, int server, int connection, Answer answer) {
	net::send(loop, connection, p.out, serverRoom(p) + p.in, [=](Loop &loop, i64) {
		serverReceive(loop, p, server, connection, answer); /* which sees that the client has gone */
	});
}

template <class Answer> static __device__ void serverAccept(Loop &loop, Server p, int server, Answer answer) {
	net::accept(loop, server, [=](Loop &loop, int connection) {
		if (connection < 0)
			serverFail(p, connection);
		else
			serverReceive(loop, p, server, connection, answer);
	});
}

template <class Answer> static __device__ void serve(Loop &loop, Server p, Answer answer) {
	net::bind(loop, net::Address{p.ip, p.port}, [=](Loop &loop, int server) {
		if (server < 0)
			serverFail(p, server);
		else
			serverAccept(loop, p, server, answer);
	});
}
