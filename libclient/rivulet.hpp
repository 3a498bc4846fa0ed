/* SPDX-License-Identifier: MIT */
/*
 * librivulet for C++17: owners of the C objects, header only. Every object releases its reference
 * when it is destroyed and can be copied (another reference) and moved. Failures throw
 * rivulet::error with the negative errno as code and rivulet_last_error() as text; runs report
 * theirs by result(). get() gives the C object for everything that is not here. rivulet.h says what
 * blocks and which threads may call.
 */
#ifndef RIVULET_HPP
#define RIVULET_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "rivulet.h"

namespace rivulet {

/** error - code() is the errno, what() the library's line */
class error : public std::system_error {
public:
	explicit error(int result)
		: std::system_error(-result, std::generic_category(), rivulet_last_error())
	{
	}
};

/** check() - pass a result on, or throw it when it is negative */
inline int check(int result)
{
	if (result < 0)
		throw error(result);
	return result;
}

/** handle - one reference to a C object */
template <typename T, T *(*Ref)(T *), T *(*Unref)(T *)> class handle {
public:
	handle() = default;
	/** takes over the caller's reference */
	explicit handle(T *object) : object_(object) {}
	handle(const handle &other) : object_(Ref(other.object_)) {}
	handle(handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
	handle &operator=(handle other) noexcept
	{
		std::swap(object_, other.object_);
		return *this;
	}
	~handle() { Unref(object_); }
	T *get() const { return object_; }
	explicit operator bool() const { return object_ != nullptr; }

private:
	T *object_ = nullptr;
};

using device_handle = handle<rivulet_device, rivulet_device_ref, rivulet_device_unref>;
using buffer_handle = handle<rivulet_buffer, rivulet_buffer_ref, rivulet_buffer_unref>;
using client_handle = handle<rivulet_client, rivulet_client_ref, rivulet_client_unref>;
using model_handle = handle<rivulet_model, rivulet_model_ref, rivulet_model_unref>;
using request_handle = handle<rivulet_request, rivulet_request_ref, rivulet_request_unref>;
using stream_handle = handle<rivulet_stream, rivulet_stream_ref, rivulet_stream_unref>;

/** sized() - a struct of the C interface, zero but for its size */
template <typename T> T sized()
{
	T t{};

	t.size = sizeof(T);
	return t;
}

/** device - the accel node, for buffers that runs use without a copy */
class device : public device_handle {
public:
	/** @path: the node; the first of a Rivulet when null */
	explicit device(const char *path = nullptr) : device_handle(open(path)) {}

private:
	static rivulet_device *open(const char *path)
	{
		rivulet_device *d = nullptr;

		check(rivulet_device_open(path, &d));
		return d;
	}
};

/** buffer - memory of a device */
class buffer : public buffer_handle {
public:
	buffer(const device &d, std::uint64_t bytes) : buffer_handle(create(d, bytes)) {}
	/** the CPU's address; valid while the buffer is */
	void *map() const
	{
		void *p = nullptr;

		check(rivulet_buffer_map(get(), &p));
		return p;
	}
	std::uint64_t bytes() const { return rivulet_buffer_size(get()); }

private:
	static rivulet_buffer *create(const device &d, std::uint64_t bytes)
	{
		rivulet_buffer *b = nullptr;

		check(rivulet_buffer_create(d.get(), bytes, &b));
		return b;
	}
};

/** tensor - an input or output of a model */
struct tensor {
	std::uint32_t number;
	std::string name;
	rivulet_dtype dtype;
	bool output;
	std::vector<std::uint64_t> shape;
	std::uint64_t bytes;
	float scale;
	std::int32_t zero_point;
	/** each run finds the shape: shape and bytes of model::tensor() are upper bounds */
	bool bounded;

	tensor(std::uint32_t n, const rivulet_tensor_info &t)
		: number(n), name(t.name), dtype(t.dtype), output(t.output), shape(t.dim, t.dim + t.ndim),
		  bytes(t.bytes), scale(t.scale), zero_point(t.zero_point), bounded(t.bounded)
	{
	}
};

/** client - a connection to the daemon */
class client : public client_handle {
public:
	/** connects; blocks. @socket: null for the default */
	explicit client(const char *socket = nullptr) : client_handle(open(socket, rivulet_open)) {}
	/** connects in the background, see rivulet_open_start() */
	static client start(const char *socket = nullptr)
	{
		return client(open(socket, rivulet_open_start));
	}
	rivulet_daemon_info info() const
	{
		auto i = sized<rivulet_daemon_info>();

		check(rivulet_client_info(get(), &i));
		return i;
	}
	int fd() const { return rivulet_client_fd(get()); }
	/** 0: connected, -EINPROGRESS, or why not */
	int result() const { return rivulet_client_result(get()); }
	int dispatch() const { return rivulet_client_dispatch(get()); }
	void ping(int timeout_ms) const { check(rivulet_client_ping(get(), timeout_ms)); }
	void wait_device(int timeout_ms = -1) const { check(rivulet_client_wait_device(get(), timeout_ms)); }
	rivulet_policy_state policy(rivulet_policy_mode mode = RIVULET_POLICY_KEEP,
				    std::uint32_t level = 0) const
	{
		auto p = sized<rivulet_policy_state>();

		check(rivulet_client_policy(get(), mode, level, &p));
		return p;
	}

private:
	explicit client(rivulet_client *c) : client_handle(c) {}
	static rivulet_client *open(const char *socket, int (*how)(const char *, rivulet_client **))
	{
		rivulet_client *c = nullptr;

		check(how(socket, &c));
		return c;
	}
};

/** model - a model that the daemon has compiled */
class model : public model_handle {
public:
	/** loads a file; blocks. @options: null for the default */
	model(const client &c, const std::string &path, const rivulet_load_options *options = nullptr)
		: model_handle(load(c, path, options, rivulet_model_load))
	{
	}
	/** begins a load, see rivulet_model_load_start() */
	static model start(const client &c, const std::string &path,
			   const rivulet_load_options *options = nullptr)
	{
		return model(load(c, path, options, rivulet_model_load_start));
	}
	/** 0: loaded, -EINPROGRESS, or why not */
	int result() const { return rivulet_model_result(get()); }
	void wait(int timeout_ms = -1) const { check(rivulet_model_wait(get(), timeout_ms)); }
	struct rivulet_model_info info() const
	{
		auto i = sized<struct rivulet_model_info>();

		check(rivulet_model_info(get(), &i));
		return i;
	}
	std::uint32_t inputs() const { return rivulet_model_inputs(get()); }
	std::uint32_t outputs() const { return rivulet_model_outputs(get()); }
	std::uint32_t find(const char *name) const
	{
		return static_cast<std::uint32_t>(check(rivulet_model_find(get(), name)));
	}
	rivulet::tensor tensor(std::uint32_t number) const
	{
		auto t = sized<rivulet_tensor_info>();

		check(rivulet_model_tensor(get(), number, &t));
		return { number, t };
	}

private:
	using how = int (*)(rivulet_client *, const char *, const rivulet_load_options *, rivulet_model **);

	explicit model(rivulet_model *m) : model_handle(m) {}
	static rivulet_model *load(const client &c, const std::string &path,
				   const rivulet_load_options *options, how call)
	{
		rivulet_model *m = nullptr;

		check(call(c.get(), path.c_str(), options, &m));
		return m;
	}
};

/**
 * request - bindings of a model, and its runs
 * Memory that is bound stays the caller's and must exist while a run is in flight.
 */
class request : public request_handle {
public:
	explicit request(const model &m) : request_handle(create(m)) {}
	/** another reference to a request, as those of a stream */
	explicit request(rivulet_request *r) : request_handle(rivulet_request_ref(r)) {}
	void bind(std::uint32_t tensor, void *data, std::size_t bytes) const
	{
		check(rivulet_bind_memory(get(), tensor, data, bytes));
	}
	/** a vector or array of elements */
	template <typename Container> void bind(std::uint32_t tensor, Container &c) const
	{
		static_assert(std::is_trivially_copyable<typename Container::value_type>::value,
			      "a tensor is plain data");
		bind(tensor, c.data(), c.size() * sizeof(typename Container::value_type));
	}
	void bind(std::uint32_t tensor, const buffer &b, std::uint64_t offset = 0) const
	{
		check(rivulet_bind_buffer(get(), tensor, b.get(), offset));
	}
	void prepare() const { check(rivulet_request_prepare(get())); }
	void run(const rivulet_run_options *options = nullptr) const
	{
		check(rivulet_request_run(get(), options));
	}
	void start(const rivulet_run_options *options = nullptr) const
	{
		check(rivulet_request_start(get(), options));
	}
	/** waits for the run's end and throws its error */
	void wait(int timeout_ms = -1) const { check(rivulet_request_wait(get(), timeout_ms)); }
	void cancel() const { check(rivulet_request_cancel(get())); }
	int result() const { return rivulet_request_result(get()); }
	std::string failure() const { return rivulet_request_error(get()); }
	rivulet_run_stats stats() const
	{
		auto s = sized<rivulet_run_stats>();

		check(rivulet_request_stats(get(), &s));
		return s;
	}
	/** an input or output with the shape that the last run found, see rivulet_request_tensor() */
	rivulet::tensor tensor(std::uint32_t number) const
	{
		auto t = sized<rivulet_tensor_info>();

		check(rivulet_request_tensor(get(), number, &t));
		return { number, t };
	}

private:
	static rivulet_request *create(const model &m)
	{
		rivulet_request *r = nullptr;

		check(rivulet_request_new(m.get(), &r));
		return r;
	}
};

/** stream - frames of one model, several in flight, see rivulet_stream_new() */
class stream : public stream_handle {
public:
	/** blocks; @depth: frames in flight, 0 for the default */
	explicit stream(const model &m, std::uint32_t depth = 0) : stream_handle(create(m, depth)) {}
	std::uint32_t depth() const { return rivulet_stream_depth(get()); }
	/** for binding the tensors of each place of the ring, 0 to depth() - 1 */
	request at(std::uint32_t place) const { return request(rivulet_stream_request(get(), place)); }
	/** the request of the next frame; false: all are in flight */
	request next() const { return request(rivulet_stream_next(get())); }
	void submit(const rivulet_run_options *options = nullptr) const
	{
		check(rivulet_stream_submit(get(), options));
	}
	/** the oldest frame, whose result() tells whether it ended well; false: none ended in time */
	request take(int timeout_ms = -1) const
	{
		rivulet_request *r = nullptr;

		rivulet_stream_take(get(), timeout_ms, &r);
		return request(r);
	}

private:
	static rivulet_stream *create(const model &m, std::uint32_t depth)
	{
		rivulet_stream *s = nullptr;

		check(rivulet_stream_new(m.get(), depth, &s));
		return s;
	}
};

/** wait_any() - index of the request that ended first, see rivulet_request_wait_any() */
inline std::size_t wait_any(const std::vector<request> &requests, int timeout_ms = -1)
{
	std::vector<rivulet_request *> r;

	for (const auto &q : requests)
		r.push_back(q.get());
	return static_cast<std::size_t>(check(rivulet_request_wait_any(
		r.data(), static_cast<std::uint32_t>(r.size()), timeout_ms)));
}

} /* namespace rivulet */

#endif
