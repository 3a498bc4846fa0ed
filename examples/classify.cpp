/* SPDX-License-Identifier: MIT */
/*
 * classify MODEL IMAGE...: the same as classify.c in C++, with two runs in flight.
 * c++ -std=c++17 classify.cpp $(pkg-config --cflags --libs librivulet)
 */
#include <algorithm>
#include <array>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <rivulet.hpp>

using image = std::array<float, 28 * 28>;
using scores = std::array<float, 10>;

static image read_image(const char *path)
{
	std::array<unsigned char, 28 * 28> bytes;
	image pixels;

	if (!std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(bytes.data()), bytes.size()))
		throw std::runtime_error(std::string(path) + ": not an image of 28 x 28 bytes");
	std::transform(bytes.begin(), bytes.end(), pixels.begin(), [](unsigned char b) { return b / 255.0f; });
	return pixels;
}

static int classify(int argc, char **argv)
{
	rivulet::client client;
	rivulet::model model(client, argv[1]);
	std::vector<rivulet::request> requests;
	std::array<image, 2> in;
	std::array<scores, 2> out;
	std::array<int, 2> number;
	std::vector<std::string> lines(argc);
	int next = 2, done = 2;

	auto start = [&](std::size_t lane) {
		number[lane] = next;
		in[lane] = read_image(argv[next++]);
		requests[lane].start();
	};
	for (std::size_t lane = 0; lane < 2; lane++) {
		requests.emplace_back(model);
		requests[lane].bind(model.find("image"), in[lane]);
		requests[lane].bind(model.find("scores"), out[lane]);
		if (next < argc)
			start(lane);
	}
	for (; done < argc; done++) {
		std::size_t lane = rivulet::wait_any(requests);
		auto best = std::max_element(out[lane].begin(), out[lane].end());

		requests[lane].wait();	/* throws if the run failed */
		lines[number[lane]] = std::string(argv[number[lane]]) + " " +
				      std::to_string(best - out[lane].begin()) + " " + std::to_string(*best);
		if (next < argc)
			start(lane);
	}
	for (int i = 2; i < argc; i++)
		std::cout << lines[i] << '\n';
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		std::cerr << "usage: " << argv[0] << " MODEL IMAGE...\n";
		return 2;
	}
	try {
		return classify(argc, argv);
	} catch (const std::exception &e) {
		std::cerr << argv[0] << ": " << e.what() << '\n';
		return 1;
	}
}
