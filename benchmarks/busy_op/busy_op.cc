// A TensorFlow op of known cost: it burns a given amount of CPU on the thread that runs it, by that thread's own CPU clock, and then
// sleeps a given time. So the truth does not depend on how busy the host is. Built by benchmarks/busy_op/__init__.py.

#include <time.h>

#include <cstdint>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

int64_t ThreadCpuNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

}  // namespace

REGISTER_OP("CsiaBusy")
    .Input("value: T")
    .Output("same: T")
    .Attr("T: type")
    .Attr("cpu_us: float")
    .Attr("sleep_us: float")
    .SetIsStateful()  // or the optimizer would share and fold calls
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return tensorflow::OkStatus();
    });

class CsiaBusyOp : public tensorflow::OpKernel {
 public:
  explicit CsiaBusyOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("cpu_us", &cpu_us_));
    OP_REQUIRES_OK(context, context->GetAttr("sleep_us", &sleep_us_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const int64_t until = ThreadCpuNanoseconds() + static_cast<int64_t>(cpu_us_ * 1000);
    while (cpu_us_ > 0 && ThreadCpuNanoseconds() < until) {
      for (int i = 0; i < 50; ++i) asm volatile("" ::: "memory");
    }
    if (sleep_us_ > 0) {
      timespec pause{static_cast<time_t>(sleep_us_ / 1e6), static_cast<long>(sleep_us_ * 1000) % 1000000000};
      nanosleep(&pause, nullptr);
    }
    context->set_output(0, context->input(0));
  }

 private:
  float cpu_us_ = 0;
  float sleep_us_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("CsiaBusy").Device(tensorflow::DEVICE_CPU), CsiaBusyOp);
