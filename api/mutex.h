// std::mutex and std::shared_mutex with clang's thread-safety annotations.
//
// The standard ones (not absl::Mutex) because ThreadSanitizer understands them and they are
// faster here; the annotations make clang check that guarded fields are read under their lock.
#pragma once

#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define NUMAFIT_TSA(x) __attribute__((x))
#else
#define NUMAFIT_TSA(x)
#endif
#define NUMAFIT_GUARDED_BY(m) NUMAFIT_TSA(guarded_by(m))
#define NUMAFIT_REQUIRES(m) NUMAFIT_TSA(requires_capability(m))
#define NUMAFIT_REQUIRES_SHARED(m) NUMAFIT_TSA(requires_shared_capability(m))
#define NUMAFIT_EXCLUDES(m) NUMAFIT_TSA(locks_excluded(m))

namespace numafit::api {

class NUMAFIT_TSA(capability("mutex")) Mutex {
 public:
  void lock() NUMAFIT_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() NUMAFIT_TSA(release_capability()) { mutex_.unlock(); }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class NUMAFIT_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) NUMAFIT_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() NUMAFIT_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class NUMAFIT_TSA(capability("shared_mutex")) SharedMutex {
 public:
  void lock() NUMAFIT_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() NUMAFIT_TSA(release_capability()) { mutex_.unlock(); }
  void lock_shared() NUMAFIT_TSA(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() NUMAFIT_TSA(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class NUMAFIT_TSA(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) NUMAFIT_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~WriterLock() NUMAFIT_TSA(release_capability()) { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class NUMAFIT_TSA(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) NUMAFIT_TSA(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() NUMAFIT_TSA(release_capability()) { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace numafit::api
