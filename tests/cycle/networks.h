/* SPDX-License-Identifier: MIT */
/* The programs on which the models of time are compared: random networks, and layers by name. */
#ifndef RVL_TEST_CYCLE_NETWORKS_H
#define RVL_TEST_CYCLE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

struct rvl_graph;

/** struct cyc_layer - one convolution, with what the network does to its result at once */
struct cyc_layer {
	char name[96];
	int64_t ch, size, m, k, s, group;
	int64_t pool; /* kernel of the maximum that follows, in steps of 2; 0: none */
	bool add;     /* a second value is added */
};

/** cyc_random_network() - a graph of 1 to 6 operators; owned by the caller, NULL without memory */
struct rvl_graph *cyc_random_network(uint64_t seed, bool streams);
/** cyc_layer_network() - a graph of one layer */
struct rvl_graph *cyc_layer_network(const struct cyc_layer *l);
/** cyc_layer_of_networks() - the i-th shape of MobileNetV2, ResNet18, VGG16; false past the last */
bool cyc_layer_of_networks(uint32_t i, struct cyc_layer *l);

#endif
