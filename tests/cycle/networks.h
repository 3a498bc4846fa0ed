/* SPDX-License-Identifier: MIT */
/*
 * The programs for the comparison of the two models of time: random networks, and layers of known
 * networks.
 */
#ifndef RVL_TEST_CYCLE_NETWORKS_H
#define RVL_TEST_CYCLE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

struct rvl_graph;

/** struct cyc_layer - one convolution, and what the network fuses to its result */
struct cyc_layer {
	char name[96];
	int64_t ch, size, m, k, s, group;
	int64_t pool; /* kernel of the max pool behind it, with stride 2; 0: none */
	bool add;     /* a second value is added */
};

/** cyc_random_network() - a graph of 1 to 6 operators; owned by the caller, NULL without memory */
struct rvl_graph *cyc_random_network(uint64_t seed, bool streams);
/** cyc_layer_network() - a graph of one layer */
struct rvl_graph *cyc_layer_network(const struct cyc_layer *l);
/** cyc_layer_of_networks() - the i-th shape of MobileNetV2, ResNet18, VGG16; false past the last */
bool cyc_layer_of_networks(uint32_t i, struct cyc_layer *l);

#endif
